"""The Python redis client, unmodified, against a running server: blocking and asyncio, RESP2 and 3."""

import asyncio
import sys

import redis
import redis.asyncio

PORT = int(sys.argv[1])


def blocking(protocol: int) -> None:
    client = redis.Redis(port=PORT, protocol=protocol, decode_responses=True, client_name="smoke")
    client.flushall()
    assert client.ping()
    assert client.set("key", "value", ex=100)
    assert client.get("key") == "value"
    assert 0 < client.ttl("key") <= 100
    assert client.set("key", "other", nx=True) is None
    assert client.incrby("counter", 5) == 5
    assert client.mset({f"k{i}": i for i in range(100)})
    assert client.mget(["k0", "k99", "none"]) == ["0", "99", None]
    assert len(set(client.scan_iter("k*", count=7))) == 101
    with client.pipeline(transaction=False) as pipe:
        for i in range(1000):
            pipe.set(f"p{i}", "x" * i)
        assert all(pipe.execute())
    assert client.strlen("p999") == 999
    big = bytes(range(256)) * 8192
    raw = redis.Redis(port=PORT, protocol=protocol)
    raw.set("big", big)
    assert raw.get("big") == big
    assert client.client_getname() == "smoke"
    assert client.info()["redis_version"]
    assert client.dbsize() == 1103
    assert client.delete("key", "counter", "big") == 3
    try:
        client.execute_command("NOSUCHCOMMAND")
    except redis.ResponseError as error:
        assert "unknown command" in str(error)
    else:
        raise AssertionError("an unknown command was accepted")
    client.flushall()


async def concurrent(protocol: int) -> None:
    client = redis.asyncio.Redis(port=PORT, protocol=protocol, decode_responses=True)
    await asyncio.gather(*(client.incr("shared") for _ in range(40)))
    assert await client.get("shared") == "40"
    await client.flushall()
    await client.aclose()


for version in (2, 3):
    blocking(version)
    asyncio.run(concurrent(version))
    print(f"ok   Python redis {redis.__version__}, RESP{version}")
