//! The readiness backend: level-triggered epoll, one receive and one send per event.
//!
//! Input of a batch is received into one arena, each connection directly behind the one before, so
//! that many small requests lie on few cache lines that stay hot:
//!
//! ```text
//! | conn 1 | conn 2 | conn 3 | ...  used ^          room for one more full receive, else batch ends
//! ```
//!
//! Invariants:
//! - `used <= arena.len()`; ranges handed out in a batch do not overlap.
//! - `EpollLink::armed` is what the kernel was last told; no registration means `None`.

use crate::backend::{Accepted, Backend, Event, Interest, Key, Received, Sent};
use crate::config::SEND_BYTES_MAX;
use crate::waker::Waker;
use base::output::Output;
use rustix::event::{Timespec, epoll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, SocketFlags};
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::ops::Range;

/// Most bytes taken from one connection per batch.
pub(crate) const RECEIVE_BYTES_MAX: usize = 16 * 1024;
const ARENA_BYTES: usize = 64 * RECEIVE_BYTES_MAX;
const EVENTS_MAX: usize = 512;
/// Slices given to one `sendmsg`.
const SEGMENTS_MAX: usize = 64;

/// `data` of the waker's registration; no key has this generation and slot.
const WAKER_DATA: u64 = u64::MAX;
/// `data` of a listener's registration is this plus its number.
const LISTENER_DATA: u64 = u64::MAX << 32;

/// See the module's text.
pub(crate) struct Epoll {
    poll: OwnedFd,
    ready: Vec<epoll::Event>,
    arena: Box<[u8]>,
    used: usize,
}

/// The registration of one connection.
#[derive(Debug, Default)]
pub(crate) struct EpollLink {
    armed: Option<Interest>,
}

impl Epoll {
    pub(crate) fn new(waker: &Waker) -> io::Result<Self> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        epoll::add(
            &poll,
            waker.signal(),
            epoll::EventData::new_u64(WAKER_DATA),
            flags,
        )?;
        Ok(Self {
            poll,
            ready: Vec::with_capacity(EVENTS_MAX),
            // Zero pages: only what is received into becomes resident.
            arena: vec![0; ARENA_BYTES].into_boxed_slice(),
            used: 0,
        })
    }
}

impl Backend for Epoll {
    type Link = EpollLink;
    type Pending = ();
    type Chunk = Range<usize>;

    const NAME: &'static str = "epoll";
    const COMPLETES: bool = false;

    fn arm_accept(&mut self, listener: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        let data = epoll::EventData::new_u64(LISTENER_DATA + u64::from(listener));
        match epoll::add(&self.poll, socket, data, epoll::EventFlags::IN) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn disarm_accept(&mut self, _listener: u32, socket: BorrowedFd<'_>) {
        // Not registered is as good.
        let _ = epoll::delete(&self.poll, socket);
    }

    fn accept(&mut self, _listener: u32, socket: BorrowedFd<'_>, _pending: ()) -> Accepted {
        match rustix::net::accept_with(socket, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
            Ok(connection) => Accepted::One(connection),
            Err(Errno::AGAIN) => Accepted::Nothing,
            Err(error) => Accepted::Failed(error),
        }
    }

    fn watch(
        &mut self,
        key: Key,
        socket: BorrowedFd<'_>,
        link: &mut EpollLink,
        want: Interest,
    ) -> io::Result<()> {
        if link.armed == Some(want) {
            return Ok(());
        }
        let mut flags = epoll::EventFlags::empty();
        flags.set(epoll::EventFlags::IN, want.read);
        flags.set(epoll::EventFlags::RDHUP, want.hangup);
        flags.set(epoll::EventFlags::OUT, want.write);
        let data = epoll::EventData::new_u64(key.bits());
        match link.armed {
            None => epoll::add(&self.poll, socket, data, flags)?,
            Some(_) => epoll::modify(&self.poll, socket, data, flags)?,
        }
        link.armed = Some(want);
        Ok(())
    }

    #[inline]
    fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        _link: &mut EpollLink,
        _pending: (),
    ) -> Received<Range<usize>> {
        let room = &mut self.arena[self.used..self.used + RECEIVE_BYTES_MAX];
        match rustix::net::recv(socket, room, RecvFlags::empty()) {
            Ok((0, _)) => Received::End,
            Ok((count, _)) => {
                let start = self.used;
                self.used += count;
                Received::Bytes(start..self.used)
            }
            Err(Errno::AGAIN | Errno::INTR) => Received::Nothing,
            Err(error) => Received::Failed(error),
        }
    }

    fn discard(&mut self, _pending: ()) {}

    fn bytes<'a>(&'a self, chunk: &'a Range<usize>) -> &'a [u8] {
        &self.arena[chunk.clone()]
    }

    fn release(&mut self, _chunk: Range<usize>) {}

    fn begin_batch(&mut self) {
        self.used = 0;
    }

    fn has_room(&self) -> bool {
        self.used + RECEIVE_BYTES_MAX <= self.arena.len()
    }

    #[inline]
    fn send(
        &mut self,
        _key: Key,
        socket: BorrowedFd<'_>,
        _link: &mut EpollLink,
        mut output: Output,
    ) -> Sent {
        match send_once(socket, &output) {
            Ok(count) => {
                output.advance(count);
                Sent::Now(output, count)
            }
            Err(Errno::AGAIN | Errno::INTR | Errno::NOBUFS) => Sent::Now(output, 0),
            Err(error) => Sent::Failed(output, error),
        }
    }

    fn sent(&mut self, _link: &mut EpollLink, _result: i32) -> Sent {
        unreachable!("epoll sends finish at once")
    }

    fn sending(&self, _link: &EpollLink) -> usize {
        0
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn cancel(&mut self, _key: Key, socket: BorrowedFd<'_>, link: &mut EpollLink) {
        if link.armed.take().is_some() {
            // Closing the last descriptor would do the same; being explicit costs little here.
            let _ = epoll::delete(&self.poll, socket);
        }
    }

    fn is_idle(&self, _link: &EpollLink) -> bool {
        true
    }

    fn wait(&mut self, timeout_ns: u64, events: &mut Vec<Event<()>>) -> io::Result<()> {
        let timeout = Timespec {
            tv_sec: (timeout_ns / 1_000_000_000) as i64,
            tv_nsec: (timeout_ns % 1_000_000_000) as i64,
        };
        self.ready.clear();
        let spare = rustix::buffer::spare_capacity(&mut self.ready);
        match epoll::wait(self.poll.as_fd(), spare, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in &self.ready {
            translate(event.flags, event.data.u64(), events);
        }
        Ok(())
    }
}

#[inline]
fn translate(flags: epoll::EventFlags, data: u64, events: &mut Vec<Event<()>>) {
    use epoll::EventFlags as Flags;
    if data >= LISTENER_DATA {
        if data != WAKER_DATA {
            events.push(Event::Acceptable {
                listener: data as u32,
                pending: (),
            });
        }
        return;
    }
    let key = Key::from_bits(data);
    if flags.contains(Flags::OUT) {
        events.push(Event::Writable { key });
    }
    if flags.contains(Flags::IN) {
        events.push(Event::Readable { key, pending: () });
    } else if flags.intersects(Flags::RDHUP | Flags::HUP | Flags::ERR) {
        events.push(Event::Hangup { key });
    }
}

#[inline]
fn send_once(socket: BorrowedFd<'_>, output: &Output) -> rustix::io::Result<usize> {
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let mut segments = output.segments_within(SEGMENTS_MAX, SEND_BYTES_MAX);
    let first = segments
        .next()
        .expect("only outputs with something in them are sent");
    let Some(second) = segments.next() else {
        return rustix::net::send(socket, first, flags);
    };
    let mut slices = [IoSlice::new(&[]); SEGMENTS_MAX];
    slices[0] = IoSlice::new(first);
    slices[1] = IoSlice::new(second);
    let mut count = 2;
    for segment in segments {
        slices[count] = IoSlice::new(segment);
        count += 1;
    }
    let mut space: [MaybeUninit<u8>; 0] = [];
    let mut nothing = SendAncillaryBuffer::new(&mut space);
    rustix::net::sendmsg(socket, &slices[..count], &mut nothing, flags)
}
