//! Random schedules against a naive lock manager.
//!
//! One thread plays all owners, so every step is checked against a model that recomputes from
//! scratch who must wait: exclusion, order by ticket, and that everybody is granted in the end.

use super::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

#[derive(Default)]
struct Owner {
    wakes: AtomicUsize,
    awaited: AtomicUsize,
}

impl Wake for Owner {
    fn wake(&self) {
        self.wakes.fetch_add(1, Relaxed);
    }

    fn awaited(&self) {
        self.awaited.fetch_add(1, Relaxed);
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }

    fn mode(&mut self) -> Mode {
        if self.below(2) == 0 {
            Mode::Shared
        } else {
            Mode::Exclusive
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Enqueuing,
    Waiting,
    Granted,
}

/// One request as the model sees it.
struct Player {
    request: Request,
    owner: Arc<Owner>,
    stage: Stage,
    keys: BTreeMap<usize, Mode>,
    /// Keys still to be enqueued.
    plan: Vec<(usize, Mode)>,
}

const KEYS: usize = 4;
const SHARDS: usize = 2;

fn place(key: usize) -> (usize, u32, u64) {
    (key % SHARDS, (key / 2 % 2) as u32, key as u64 / 3)
}

/// Must `who` wait, by the rules alone: some holder, or an earlier request, conflicts on a key?
fn must_wait(players: &[Player], who: &Player) -> bool {
    who.keys.iter().any(|(key, mode)| {
        players.iter().any(|other| {
            other.request.ticket() != who.request.ticket()
                && (other.stage == Stage::Granted || other.request.ticket() < who.request.ticket())
                && other
                    .keys
                    .get(key)
                    .is_some_and(|held| held.conflicts(*mode))
        })
    })
}

struct Game {
    table: LockTable,
    players: Vec<Player>,
    random: Random,
    granted: usize,
}

impl Game {
    fn join(&mut self) {
        let owner = Arc::new(Owner::default());
        let request = self.table.begin(owner.clone());
        let plan = (0..=self.random.below(3))
            .map(|_| (self.random.below(KEYS), self.random.mode()))
            .collect();
        self.players.push(Player {
            request,
            owner,
            stage: Stage::Enqueuing,
            keys: BTreeMap::new(),
            plan,
        });
    }

    /// The next key of an enqueuing player, or its seal.
    fn advance(&mut self, at: usize) {
        let player = &mut self.players[at];
        if let Some((key, mode)) = player.plan.pop() {
            let (shard, db, hash) = place(key);
            let strongest = player.keys.entry(key).or_insert(mode);
            *strongest = mode.max(*strongest);
            self.table.enqueue(&player.request, shard, db, hash, mode);
            return;
        }
        let granted = self.table.seal(&player.request);
        let expected = !must_wait(&self.players, &self.players[at]);
        assert_eq!(granted, expected, "seal of {:?}", self.players[at].request);
        self.players[at].stage = if granted {
            Stage::Granted
        } else {
            Stage::Waiting
        };
        self.granted += usize::from(granted);
    }

    /// Asks a granted player's request for one more key.
    fn reach(&mut self, at: usize) {
        let (key, mode) = (self.random.below(KEYS), self.random.mode());
        let (shard, db, hash) = place(key);
        let me = &self.players[at];
        let mine = me.keys.get(&key).copied();
        let allowed = mine >= Some(mode)
            || self.players.iter().all(|other| {
                let theirs = other.keys.get(&key).copied();
                other.request.ticket() == me.request.ticket()
                    || !theirs.is_some_and(|theirs| theirs.conflicts(mode))
                    // An upgrade cannot take from whoever waits for the weaker lock anyway.
                    || (other.stage != Stage::Granted
                        && (other.request.ticket() > me.request.ticket() || mine.is_some()))
            });
        let got = self
            .table
            .try_enqueue_granted(&me.request, shard, db, hash, mode);
        // An upgrade beside shared requests that are ready but not granted is refused: allowed.
        assert!(
            got == allowed || (!got && mine.is_some()),
            "late key {key} {mode:?}"
        );
        if got {
            let held = self.players[at].keys.entry(key).or_insert(mode);
            *held = mode.max(*held);
        }
    }

    fn leave(&mut self, at: usize) {
        let player = self.players.swap_remove(at);
        match player.stage {
            Stage::Granted => {
                assert!(
                    !self.table.cancel(&player.request),
                    "cancelled what was granted"
                );
                self.table.end(&player.request);
            }
            Stage::Enqueuing | Stage::Waiting => assert!(self.table.cancel(&player.request)),
        }
        self.settle();
    }

    /// Takes note of grants and compares everything with the model.
    fn settle(&mut self) {
        for player in &mut self.players {
            let granted = self.table.is_granted(&player.request);
            let wakes = player.owner.wakes.load(Relaxed);
            if player.stage == Stage::Waiting && granted {
                assert_eq!(wakes, 1, "granted without a wake-up");
                player.stage = Stage::Granted;
                self.granted += 1;
            }
            assert_eq!(granted, player.stage == Stage::Granted);
            assert!(wakes <= 1);
        }
        self.check();
    }

    fn check(&self) {
        self.table.check_invariants();
        for player in &self.players {
            if player.stage == Stage::Waiting {
                assert!(
                    must_wait(&self.players, player),
                    "{:?} waits for nobody",
                    player.request
                );
            }
            for other in &self.players {
                let conflict = player.request.ticket() != other.request.ticket()
                    && player.keys.iter().any(|(key, mode)| {
                        other
                            .keys
                            .get(key)
                            .is_some_and(|theirs| theirs.conflicts(*mode))
                    });
                let both = player.stage == Stage::Granted && other.stage == Stage::Granted;
                assert!(!(conflict && both), "two hold one key");
                if conflict && player.stage == Stage::Granted && other.stage == Stage::Waiting {
                    assert!(
                        player.request.is_awaited(),
                        "a holder does not know of a waiter"
                    );
                    assert_eq!(player.owner.awaited.load(Relaxed), 1);
                }
            }
        }
        for key in 0..KEYS {
            let (shard, db, hash) = place(key);
            let modes = || {
                self.players
                    .iter()
                    .filter_map(|player| player.keys.get(&key))
            };
            assert_eq!(
                self.table.blocks(shard, db, hash, Mode::Shared),
                modes().any(|mode| *mode == Mode::Exclusive)
            );
            assert_eq!(
                self.table.blocks(shard, db, hash, Mode::Exclusive),
                modes().next().is_some()
            );
        }
    }
}

fn play(seed: u64, steps: usize) {
    let mut game = Game {
        table: LockTable::new(SHARDS),
        players: Vec::new(),
        random: Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
        granted: 0,
    };
    for _ in 0..steps {
        let count = game.players.len();
        if count == 0 || (count < 8 && game.random.below(4) == 0) {
            game.join();
        } else {
            let at = game.random.below(count);
            match game.players[at].stage {
                Stage::Enqueuing if game.random.below(10) > 0 => game.advance(at),
                Stage::Waiting if game.random.below(5) > 0 => {}
                Stage::Granted if game.random.below(3) > 0 => game.reach(at),
                _ => game.leave(at),
            }
        }
        game.settle();
    }
    // Nobody new, nobody cancels: everybody is granted, the earliest that waits first or beside.
    while !game.players.is_empty() {
        let enqueuing = game
            .players
            .iter()
            .position(|p| p.stage == Stage::Enqueuing);
        let granted = game.players.iter().position(|p| p.stage == Stage::Granted);
        match (enqueuing, granted) {
            (Some(at), _) => {
                game.advance(at);
                game.settle();
            }
            (None, Some(at)) => game.leave(at),
            (None, None) => panic!("seed {seed}: nobody runs, somebody waits"),
        }
    }
    assert!((0..SHARDS).all(|shard| game.table.entries_in(shard) == 0));
    assert!(game.granted > steps / 50, "the game was not played");
}

#[test]
fn random_schedules_agree_with_the_model() {
    for seed in 1..=300 {
        play(seed, 600);
    }
}

fn start(table: &LockTable, keys: &[(u64, Mode)]) -> (Request, Arc<Owner>, bool) {
    let owner = Arc::new(Owner::default());
    let request = table.begin(owner.clone());
    for &(hash, mode) in keys {
        table.enqueue(&request, 0, 0, hash, mode);
    }
    let granted = table.seal(&request);
    (request, owner, granted)
}

#[test]
fn shared_requests_run_together_and_an_exclusive_one_waits_for_all() {
    let table = LockTable::new(1);
    let (first, first_owner, granted) = start(&table, &[(1, Mode::Shared)]);
    assert!(granted);
    let (second, _, granted) = start(&table, &[(1, Mode::Shared)]);
    assert!(granted);
    assert!(!first.is_awaited());
    let (writer, writer_owner, granted) = start(&table, &[(1, Mode::Exclusive)]);
    assert!(!granted && first.is_awaited() && second.is_awaited());
    assert_eq!(first_owner.awaited.load(Relaxed), 1);
    // A later reader does not pass the writer.
    let (third, _, granted) = start(&table, &[(1, Mode::Shared)]);
    assert!(!granted);
    table.release(&first);
    assert!(!table.is_granted(&writer));
    table.release(&second);
    assert!(table.is_granted(&writer) && !table.is_granted(&third));
    assert!(writer.is_awaited());
    assert_eq!(writer_owner.wakes.load(Relaxed), 1);
    table.release(&writer);
    assert!(table.is_granted(&third));
    table.release(&third);
    assert_eq!(table.entries_in(0), 0);
}

#[test]
fn an_earlier_request_goes_before_later_ones_that_have_not_begun() {
    let table = LockTable::new(1);
    let owner = || Arc::new(Owner::default());
    let early = table.begin(owner());
    let late = table.begin(owner());
    // The later one comes first to its first key, and would be granted if it were sealed now.
    table.enqueue(&late, 0, 0, 1, Mode::Exclusive);
    table.enqueue(&early, 0, 0, 1, Mode::Exclusive);
    table.enqueue(&early, 0, 0, 2, Mode::Exclusive);
    table.enqueue(&late, 0, 0, 2, Mode::Exclusive);
    assert!(!table.seal(&late));
    assert!(table.seal(&early));
    // A running one is not overtaken.
    let earliest = table.begin(owner());
    table.enqueue(&earliest, 0, 0, 2, Mode::Shared);
    assert!(!table.seal(&earliest));
    table.release(&early);
    assert!(table.is_granted(&late));
    table.release(&late);
    assert!(table.is_granted(&earliest));
    table.release(&earliest);
}

/// A two-key request is granted although single-key requests never stop coming for either key.
#[test]
fn streams_of_single_keys_do_not_starve_a_pair() {
    let table = LockTable::new(1);
    let mut streams: [Vec<Request>; 2] = [Vec::new(), Vec::new()];
    let keys = [1, 2];
    for (stream, key) in streams.iter_mut().zip(keys) {
        stream.push(start(&table, &[(key, Mode::Exclusive)]).0);
    }
    let (pair, _, granted) = start(&table, &[(1, Mode::Exclusive), (2, Mode::Exclusive)]);
    assert!(!granted);
    let mut rounds = 0;
    while !table.is_granted(&pair) {
        rounds += 1;
        let which = rounds % 2;
        // There is always a follower before the runner ends.
        streams[which].push(start(&table, &[(keys[which], Mode::Exclusive)]).0);
        if table.is_granted(&streams[which][0]) {
            table.release(&streams[which].remove(0));
        }
        assert!(rounds < 5, "starved");
    }
    table.release(&pair);
    for request in streams.into_iter().flatten() {
        assert!(table.is_granted(&request));
        table.release(&request);
    }
}

#[test]
fn keys_named_twice_count_once_in_the_stronger_mode() {
    let table = LockTable::new(1);
    let twice = [(7, Mode::Shared), (7, Mode::Exclusive), (7, Mode::Shared)];
    let (request, _, granted) = start(&table, &twice);
    assert!(granted);
    assert_eq!(request.key_count(), 1);
    assert!(table.blocks(0, 0, 7, Mode::Shared));
    assert!(!table.blocks(0, 1, 7, Mode::Exclusive));
    assert!(table.any_entry_matching(0, 0, |hash| hash == 7));
    assert!(!table.any_entry_matching(0, 1, |hash| hash == 7));
    table.release(&request);
    assert!(!table.blocks(0, 0, 7, Mode::Exclusive));
}

#[test]
fn a_late_wait_goes_before_all_that_have_not_begun() {
    let table = LockTable::new(1);
    let token = WaitToken::new();
    let (script, owner, _) = start(&table, &[(1, Mode::Exclusive)]);
    let (holder, _, _) = start(&table, &[(2, Mode::Shared)]);
    // Waits for the script on key 1, and stands in key 2's line as well.
    let (pair, _, granted) = start(&table, &[(1, Mode::Exclusive), (2, Mode::Exclusive)]);
    assert!(!granted);
    assert!(!table.try_enqueue_granted(&script, 0, 0, 2, Mode::Exclusive));
    assert!(table.try_enqueue_granted(&script, 0, 0, 3, Mode::Exclusive));
    let held = token.try_take().unwrap();
    assert!(token.try_take().is_none());
    assert!(!table.enqueue_late(&script, &held, 0, 0, 2, Mode::Exclusive));
    assert!(table.waits_late(&script) && script.is_granted());
    table.release(&holder);
    assert!(!table.waits_late(&script));
    assert_eq!(owner.wakes.load(Relaxed), 1);
    drop(held);
    assert!(!table.is_granted(&pair));
    table.release(&script);
    assert!(table.is_granted(&pair));
    table.release(&pair);
    assert_eq!(table.entries_in(0), 0);
}

#[test]
fn a_late_upgrade_waits_for_the_other_readers_only() {
    let table = LockTable::new(1);
    let token = WaitToken::new();
    let (script, owner, _) = start(&table, &[(1, Mode::Shared)]);
    let (reader, _, _) = start(&table, &[(1, Mode::Shared)]);
    let (writer, _, _) = start(&table, &[(1, Mode::Exclusive)]);
    assert!(!table.try_enqueue_granted(&script, 0, 0, 1, Mode::Exclusive));
    let held = token.try_take().unwrap();
    // Once given up, once waited out.
    assert!(!table.enqueue_late(&script, &held, 0, 0, 1, Mode::Exclusive));
    assert!(table.abandon_late(&script, 0, 0, 1));
    assert!(!table.abandon_late(&script, 0, 0, 1));
    assert_eq!(script.key_count(), 1);
    assert!(!table.enqueue_late(&script, &held, 0, 0, 1, Mode::Exclusive));
    table.release(&reader);
    assert_eq!(owner.wakes.load(Relaxed), 1);
    assert!(table.try_enqueue_granted(&script, 0, 0, 1, Mode::Exclusive));
    assert!(!table.is_granted(&writer));
    table.check_invariants();
    table.release(&script);
    assert!(table.is_granted(&writer));
    table.release(&writer);
    assert_eq!(table.entries_in(0), 0);
}

#[test]
fn a_late_key_given_up_is_forgotten() {
    let table = LockTable::new(1);
    let token = WaitToken::new();
    let (script, _, _) = start(&table, &[(1, Mode::Exclusive)]);
    let (holder, _, _) = start(&table, &[(2, Mode::Exclusive)]);
    let held = token.try_take().unwrap();
    assert!(!table.enqueue_late(&script, &held, 0, 0, 2, Mode::Exclusive));
    assert_eq!(script.key_count(), 2);
    assert!(table.abandon_late(&script, 0, 0, 2));
    assert_eq!(script.key_count(), 1);
    table.release(&holder);
    table.release(&script);
    assert_eq!(table.entries_in(0), 0);
}

#[test]
fn the_token_goes_to_the_oldest_claim() {
    let token = WaitToken::new();
    let owner = || Arc::new(Owner::default());
    let (first, second, third) = (owner(), owner(), owner());
    let held = token.try_take().unwrap();
    let first_claim = token.take_or_queue(first.clone()).unwrap_err();
    let second_claim = token.take_or_queue(second.clone()).unwrap_err();
    let third_claim = token.take_or_queue(third.clone()).unwrap_err();
    let first_claim = first_claim.collect().unwrap_err();
    drop(second_claim);
    drop(held);
    assert_eq!(first.wakes.load(Relaxed), 1);
    // Given, not collected: nobody else gets it, and dropping the claim passes it on.
    assert!(token.try_take().is_none());
    drop(first_claim);
    assert_eq!(
        (second.wakes.load(Relaxed), third.wakes.load(Relaxed)),
        (0, 1)
    );
    let held = third_claim.collect().unwrap();
    drop(held);
    assert!(token.try_take().is_some());
}

/// Threads with overlapping key sets, in any order; what a lock protects is checked by counting who
/// is inside.
#[test]
fn threads_exclude_each_other_and_all_finish() {
    const THREADS: u64 = 4;
    const ROUNDS: usize = 3_000;
    let table = Arc::new(LockTable::new(SHARDS));
    // Readers count 1, a writer 1000.
    let inside: Arc<[AtomicUsize; KEYS]> = Arc::default();
    let threads: Vec<_> = (1..=THREADS)
        .map(|number| {
            let (table, inside) = (Arc::clone(&table), Arc::clone(&inside));
            let body = move || {
                let mut random = Random(number << 32 | 0x77);
                for _ in 0..ROUNDS {
                    let owner = Arc::new(Owner::default());
                    let request = table.begin(owner.clone());
                    let mut keys = BTreeMap::new();
                    for _ in 0..=random.below(3) {
                        let (key, mode) = (random.below(KEYS), random.mode());
                        let (shard, db, hash) = place(key);
                        table.enqueue(&request, shard, db, hash, mode);
                        let strongest = keys.entry(key).or_insert(mode);
                        *strongest = mode.max(*strongest);
                    }
                    if !table.seal(&request) {
                        if random.below(8) == 0 && table.cancel(&request) {
                            continue;
                        }
                        while owner.wakes.load(Relaxed) == 0 {
                            env::thread::yield_now();
                        }
                    }
                    assert!(table.is_granted(&request));
                    let weight = |mode: &Mode| if *mode == Mode::Shared { 1 } else { 1000 };
                    for (key, mode) in &keys {
                        let before = inside[*key].fetch_add(weight(mode), Relaxed);
                        let limit = if *mode == Mode::Shared { 999 } else { 0 };
                        assert!(before <= limit, "{before} inside");
                    }
                    for (key, mode) in &keys {
                        inside[*key].fetch_sub(weight(mode), Relaxed);
                    }
                    table.release(&request);
                }
            };
            env::thread::spawn_named("locker", body).expect("a thread")
        })
        .collect();
    for thread in threads {
        thread.join().expect("no assertion failed");
    }
    assert!((0..SHARDS).all(|shard| table.entries_in(shard) == 0));
}

#[test]
fn a_million_keys() {
    const COUNT: u64 = 1_000_000;
    let table = LockTable::new(16);
    let request = table.begin(Arc::new(Owner::default()));
    let begun = env::clock::monotonic_ns();
    for number in 0..COUNT {
        let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        table.enqueue(&request, (hash >> 60) as usize, 0, hash, Mode::Exclusive);
    }
    assert!(table.seal(&request));
    let enqueued = env::clock::monotonic_ns();
    table.release(&request);
    let released = env::clock::monotonic_ns();
    println!(
        "enqueue {} ns, release {} ns a key",
        (enqueued - begun) / COUNT,
        (released - enqueued) / COUNT
    );
    assert!((0..16).all(|shard| table.entries_in(shard) == 0));
}
