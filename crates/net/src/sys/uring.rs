//! The completion backend: multishot accepts and receives into shared buffers, and one submission
//! for all sends of a batch together with the next wait.
//!
//! ```text
//! user_data:  kind, 4 bits | generation, 32 bits | slot (or listener), 28 bits
//! ```
//!
//! Invariants beside those of the parent module:
//! - A connection's slot stays in use until its link is idle, so a completion always finds it.
//! - When the loop enters the kernel, every receive buffer is in the ring: a receive that ended for
//!   want of a buffer can be armed again at once.

use super::buffers::{BufferRing, Chunk, GROUP};
use crate::backend::{Accepted, Backend, Event, Interest, Key, Received, SLOTS_MAX, Sent};
use crate::config::SEND_BYTES_MAX;
use crate::waker::Waker;
use base::output::Output;
use io_uring::types::{CancelBuilder, Fd, SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, cqueue, opcode, squeue};
use rustix::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use rustix::io::Errno;
use std::io;

const SUBMISSIONS: u32 = 1024;
const COMPLETIONS: u32 = 4096;
/// Slices given to the kernel in one send.
const SEGMENTS_MAX: usize = 256;
/// How often the end waits a tenth of a second for the kernel to let go of our memory.
const FAREWELLS_MAX: usize = 50;

const KIND_ACCEPT: u64 = 1 << 60;
const KIND_RECEIVE: u64 = 2 << 60;
const KIND_HANGUP: u64 = 3 << 60;
const KIND_SEND: u64 = 4 << 60;
const KIND_WAKE: u64 = 5 << 60;
const KIND_CANCEL: u64 = 6 << 60;
const KIND_PROBE: u64 = 7 << 60;
const KIND_MASK: u64 = 15 << 60;

const NO_FLIGHT: u32 = u32::MAX;

/// See the module's text.
pub(crate) struct Uring {
    /// `None` only while being dropped: the kernel's side must go before the memory.
    ring: Option<IoUring>,
    buffers: Option<BufferRing>,
    flights: Vec<Flight>,
    flights_free: Vec<u32>,
    /// Listeners with an accept under way.
    accepting: Vec<bool>,
    signal: RawFd,
    signal_armed: bool,
    /// Receives and sends under way.
    pending: usize,
}

/// What is under way for one connection.
#[derive(Debug)]
pub(crate) struct UringLink {
    receive: Operation,
    hangup: Operation,
    hangup_wanted: bool,
    flight: u32,
}

/// An operation that stays with the kernel until it is cancelled or ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    Absent,
    UnderWay,
    /// Cancelled, but its end has not been seen yet.
    Cancelled,
}

/// A completion that concerns a receive, a poll or an accept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Completion {
    kind: u64,
    result: i32,
    flags: u32,
}

/// An output in the kernel's hands.
#[derive(Default)]
struct Flight {
    output: Output,
    /// Bytes asked to be sent.
    len: usize,
    /// Used if the output has several segments; kept for reuse.
    message: Option<Box<Message>>,
}

struct Message {
    header: libc::msghdr,
    slices: Vec<libc::iovec>,
}

impl std::fmt::Debug for Uring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Uring")
            .field("pending", &self.pending)
            .finish_non_exhaustive()
    }
}

impl Default for UringLink {
    fn default() -> Self {
        Self {
            receive: Operation::Absent,
            hangup: Operation::Absent,
            hangup_wanted: false,
            flight: NO_FLIGHT,
        }
    }
}

impl UringLink {
    fn is_idle(&self) -> bool {
        self.receive == Operation::Absent
            && self.hangup == Operation::Absent
            && self.flight == NO_FLIGHT
    }
}

impl Uring {
    /// Sets up the ring on the thread that will use it, and tries what is needed of it.
    pub(crate) fn new(waker: &Waker) -> io::Result<Self> {
        let ring = build_ring()?;
        let buffers = BufferRing::register(&ring)?;
        let mut made = Self {
            ring: Some(ring),
            buffers: Some(buffers),
            flights: Vec::new(),
            flights_free: Vec::new(),
            accepting: Vec::new(),
            signal: waker.signal().as_raw_fd(),
            signal_armed: false,
            pending: 0,
        };
        made.probe()?;
        Ok(made)
    }

    /// Sends a no-op through the ring.
    fn probe(&mut self) -> io::Result<()> {
        self.push(&opcode::Nop::new().build().user_data(KIND_PROBE));
        self.ring().submit_and_wait(1)?;
        let completion = self.ring().completion().next();
        match completion {
            Some(entry) if entry.user_data() == KIND_PROBE && entry.result() == 0 => Ok(()),
            _ => Err(io::Error::other("a no-op did not complete")),
        }
    }

    fn ring(&mut self) -> &mut IoUring {
        self.ring.as_mut().expect("the ring goes last")
    }

    fn buffers(&mut self) -> &mut BufferRing {
        self.buffers.as_mut().expect("the buffers go last")
    }

    /// Queues an operation. What it points to must stay valid until it has completed; the callers
    /// are within this module and keep to the parent module's protocol.
    fn push(&mut self, entry: &squeue::Entry) {
        loop {
            let ring = self.ring();
            // SAFETY: the operations pushed here refer to no memory (accept, poll, cancel, no-op),
            // to the registered buffers (receive), or to a flight (send), which outlive them.
            if unsafe { ring.submission().push(entry) }.is_ok() {
                return;
            }
            match ring.submit() {
                Ok(_) => {}
                Err(error) if is_passing(&error) => {}
                Err(error) => panic!("io_uring does not take submissions: {error}"),
            }
        }
    }

    fn cancel_operation(&mut self, user_data: u64) {
        self.push(
            &opcode::AsyncCancel::new(user_data)
                .build()
                .user_data(KIND_CANCEL),
        );
    }

    /// Enters the kernel, waiting for one completion if `timeout_ns` is not 0.
    fn enter(&mut self, timeout_ns: u64) -> io::Result<()> {
        let ring = self.ring();
        let entered = if timeout_ns == 0 {
            let queued = ring.submission().len() as u32;
            let flags = EnterFlags::GETEVENTS.bits();
            // SAFETY: no argument is passed; the count is what the queue holds.
            unsafe {
                ring.submitter()
                    .enter::<libc::sigset_t>(queued, 0, flags, None)
            }
        } else {
            let timeout = Timespec::new()
                .sec(timeout_ns / 1_000_000_000)
                .nsec((timeout_ns % 1_000_000_000) as u32);
            let arguments = SubmitArgs::new().timespec(&timeout);
            ring.submitter().submit_with_args(1, &arguments)
        };
        match entered {
            Ok(_) => Ok(()),
            Err(error) if is_passing(&error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn harvest(&mut self, events: &mut Vec<Event<Completion>>) {
        let ring = self.ring.as_mut().expect("the ring goes last");
        for entry in ring.completion() {
            let (user_data, result, flags) = (entry.user_data(), entry.result(), entry.flags());
            let kind = user_data & KIND_MASK;
            let pending = Completion {
                kind,
                result,
                flags,
            };
            let over = !cqueue::more(flags);
            match kind {
                KIND_RECEIVE | KIND_HANGUP => {
                    if over && kind == KIND_RECEIVE {
                        self.pending -= 1;
                    }
                    events.push(Event::Readable {
                        key: key_of(user_data),
                        pending,
                    });
                }
                KIND_SEND => {
                    self.pending -= 1;
                    events.push(Event::Sent {
                        key: key_of(user_data),
                        result,
                    });
                }
                KIND_ACCEPT => {
                    let listener = user_data as u32;
                    self.accepting[listener as usize] &= !over;
                    events.push(Event::Acceptable { listener, pending });
                }
                KIND_WAKE => self.signal_armed &= !over,
                _ => {}
            }
        }
    }

    fn take_flight(&mut self, output: Output) -> u32 {
        let index = self.flights_free.pop().unwrap_or_else(|| {
            self.flights.push(Flight::default());
            self.flights.len() as u32 - 1
        });
        self.flights[index as usize].output = output;
        index
    }

    /// Before the memory goes: everything that refers to it is cancelled and awaited.
    fn release_kernel(&mut self) -> bool {
        let all = opcode::AsyncCancel2::new(CancelBuilder::any())
            .build()
            .user_data(KIND_CANCEL);
        let mut events = Vec::new();
        for _ in 0..FAREWELLS_MAX {
            if self.pending == 0 {
                return true;
            }
            self.push(&all);
            if self.enter(100_000_000).is_err() {
                return false;
            }
            self.harvest(&mut events);
            for event in events.drain(..) {
                if let Event::Acceptable { pending, .. } = event {
                    drop(accepted(pending));
                }
            }
        }
        self.pending == 0
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        let released = self.release_kernel();
        drop(self.ring.take());
        if !released {
            // The kernel may still write there; losing the memory is the lesser evil.
            #[expect(clippy::mem_forget, reason = "see above")]
            {
                std::mem::forget(self.buffers.take());
                std::mem::forget(std::mem::take(&mut self.flights));
            }
        }
    }
}

impl Backend for Uring {
    type Link = UringLink;
    type Pending = Completion;
    type Chunk = Chunk;

    const NAME: &'static str = "io_uring";
    const COMPLETES: bool = true;

    fn arm_accept(&mut self, listener: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        let index = listener as usize;
        if self.accepting.len() <= index {
            self.accepting.resize(index + 1, false);
        }
        if std::mem::replace(&mut self.accepting[index], true) {
            return Ok(());
        }
        let entry = opcode::AcceptMulti::new(Fd(socket.as_raw_fd()))
            .flags(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK)
            .build();
        self.push(&entry.user_data(KIND_ACCEPT | u64::from(listener)));
        Ok(())
    }

    fn disarm_accept(&mut self, listener: u32, _socket: BorrowedFd<'_>) {
        if self.accepting.get(listener as usize) == Some(&true) {
            self.cancel_operation(KIND_ACCEPT | u64::from(listener));
        }
    }

    fn accept(&mut self, _listener: u32, _socket: BorrowedFd<'_>, pending: Completion) -> Accepted {
        accepted(pending)
    }

    fn watch(
        &mut self,
        key: Key,
        socket: BorrowedFd<'_>,
        link: &mut UringLink,
        want: Interest,
    ) -> io::Result<()> {
        let fd = Fd(socket.as_raw_fd());
        let receive = KIND_RECEIVE | bits_of(key);
        match (want.read, link.receive) {
            (true, Operation::Absent) => {
                self.push(&opcode::RecvMulti::new(fd, GROUP).build().user_data(receive));
                link.receive = Operation::UnderWay;
                self.pending += 1;
            }
            (false, Operation::UnderWay) => {
                self.cancel_operation(receive);
                link.receive = Operation::Cancelled;
            }
            // One that was cancelled is started anew, if still wanted, once it has ended.
            _ => {}
        }
        let hangup = KIND_HANGUP | bits_of(key);
        link.hangup_wanted = want.hangup;
        match (want.hangup, link.hangup) {
            (true, Operation::Absent) => {
                let entry = opcode::PollAdd::new(fd, libc::POLLRDHUP as u32).build();
                self.push(&entry.user_data(hangup));
                link.hangup = Operation::UnderWay;
            }
            (false, Operation::UnderWay) => {
                self.cancel_operation(hangup);
                link.hangup = Operation::Cancelled;
            }
            _ => {}
        }
        Ok(())
    }

    #[inline]
    fn receive(
        &mut self,
        _socket: BorrowedFd<'_>,
        link: &mut UringLink,
        pending: Completion,
    ) -> Received<Chunk> {
        if pending.kind == KIND_HANGUP {
            link.hangup = Operation::Absent;
            let hung_up = pending.result > 0 && link.hangup_wanted;
            return if hung_up {
                Received::End
            } else {
                Received::Nothing
            };
        }
        if !cqueue::more(pending.flags) {
            link.receive = Operation::Absent;
        }
        match pending.result {
            0 => {
                self.discard(pending);
                Received::End
            }
            1.. => {
                let buffers = self.buffers.as_ref().expect("the buffers go last");
                let chunk = buffers.claim(pending.result, pending.flags);
                Received::Bytes(chunk.expect("received bytes are in a buffer"))
            }
            failed => {
                self.discard(pending);
                match Errno::from_raw_os_error(-failed) {
                    Errno::NOBUFS => {
                        self.buffers().grow();
                        Received::Nothing
                    }
                    Errno::CANCELED | Errno::AGAIN | Errno::INTR => Received::Nothing,
                    error => Received::Failed(error),
                }
            }
        }
    }

    fn discard(&mut self, pending: Completion) {
        if pending.kind == KIND_RECEIVE
            && let Some(chunk) = self.buffers().claim(pending.result, pending.flags)
        {
            self.release(chunk);
        }
    }

    fn bytes<'a>(&'a self, chunk: &'a Chunk) -> &'a [u8] {
        self.buffers
            .as_ref()
            .expect("the buffers go last")
            .bytes(chunk)
    }

    fn release(&mut self, chunk: Chunk) {
        self.buffers().release(chunk);
    }

    fn begin_batch(&mut self) {}

    fn has_room(&self) -> bool {
        true
    }

    #[inline]
    fn send(
        &mut self,
        key: Key,
        socket: BorrowedFd<'_>,
        link: &mut UringLink,
        output: Output,
    ) -> Sent {
        assert_eq!(link.flight, NO_FLIGHT, "one send at a time");
        let index = self.take_flight(output);
        link.flight = index;
        let entry = self.flights[index as usize].prepare(Fd(socket.as_raw_fd()));
        self.pending += 1;
        self.push(&entry.user_data(KIND_SEND | bits_of(key)));
        Sent::Later
    }

    #[inline]
    fn sent(&mut self, link: &mut UringLink, result: i32) -> Sent {
        let index = std::mem::replace(&mut link.flight, NO_FLIGHT);
        let flight = &mut self.flights[index as usize];
        let mut output = std::mem::take(&mut flight.output);
        self.flights_free.push(index);
        if let Ok(count) = usize::try_from(result) {
            output.advance(count);
            return Sent::Now(output, count);
        }
        match Errno::from_raw_os_error(-result) {
            Errno::AGAIN | Errno::INTR => Sent::Now(output, 0),
            error => Sent::Failed(output, error),
        }
    }

    #[inline]
    fn sending(&self, link: &UringLink) -> usize {
        match link.flight {
            NO_FLIGHT => 0,
            index => self.flights[index as usize].output.len(),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self.ring().submit() {
            Err(error) if !is_passing(&error) => Err(error),
            _ => Ok(()),
        }
    }

    fn cancel(&mut self, _key: Key, socket: BorrowedFd<'_>, link: &mut UringLink) {
        if !link.is_idle() {
            let every = CancelBuilder::fd(Fd(socket.as_raw_fd())).all();
            self.push(
                &opcode::AsyncCancel2::new(every)
                    .build()
                    .user_data(KIND_CANCEL),
            );
        }
    }

    fn is_idle(&self, link: &UringLink) -> bool {
        link.is_idle()
    }

    fn wait(&mut self, timeout_ns: u64, events: &mut Vec<Event<Completion>>) -> io::Result<()> {
        if !self.signal_armed {
            self.signal_armed = true;
            let entry = opcode::PollAdd::new(Fd(self.signal), libc::POLLIN as u32).multi(true);
            self.push(&entry.build().user_data(KIND_WAKE));
        }
        self.enter(timeout_ns)?;
        self.harvest(events);
        Ok(())
    }
}

impl Flight {
    /// The operation that sends this flight's output. It must be in its final place: the operation
    /// points to its bytes, and to the message, which is boxed.
    fn prepare(&mut self, fd: Fd) -> squeue::Entry {
        let flags = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;
        let mut segments = self.output.segments_within(SEGMENTS_MAX, SEND_BYTES_MAX);
        let first = segments
            .next()
            .expect("only outputs with something in them are sent");
        let Some(second) = segments.next() else {
            self.len = first.len().min(SEND_BYTES_MAX);
            let entry = opcode::Send::new(fd, first.as_ptr(), self.len as u32);
            return entry.flags(flags).build();
        };
        let message = self.message.get_or_insert_with(|| Box::new(Message::new()));
        message.slices.clear();
        self.len = 0;
        for segment in [first, second].into_iter().chain(segments) {
            let len = segment.len().min(SEND_BYTES_MAX - self.len);
            let base = segment.as_ptr().cast_mut().cast();
            message.slices.push(libc::iovec {
                iov_base: base,
                iov_len: len,
            });
            self.len += len;
            if self.len == SEND_BYTES_MAX {
                break;
            }
        }
        message.header.msg_iov = message.slices.as_mut_ptr();
        message.header.msg_iovlen = message.slices.len();
        let header: *const libc::msghdr = &raw const message.header;
        opcode::SendMsg::new(fd, header).flags(flags as u32).build()
    }
}

impl Message {
    fn new() -> Self {
        // SAFETY: a msghdr of zeros is a valid one that names no address, no data, no control.
        let header = unsafe { std::mem::zeroed() };
        Self {
            header,
            slices: Vec::new(),
        }
    }
}

fn build_ring() -> io::Result<IoUring> {
    let mut deferred = IoUring::builder();
    deferred
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_clamp();
    deferred.setup_cqsize(COMPLETIONS).dontfork();
    match deferred.build(SUBMISSIONS) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            // Kernel 6.0 knows a single issuer, and multishot receives, but no deferred work.
            let mut cooperative = IoUring::builder();
            cooperative
                .setup_single_issuer()
                .setup_coop_taskrun()
                .setup_clamp();
            cooperative.setup_cqsize(COMPLETIONS).dontfork();
            cooperative.build(SUBMISSIONS)
        }
        built => built,
    }
}

/// Errors of entering the kernel that pass by themselves: interrupted, timed out, or completions to
/// be taken first.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EINTR | libc::ETIME | libc::EBUSY | libc::EAGAIN)
    )
}

fn accepted(completion: Completion) -> Accepted {
    if completion.result >= 0 {
        // SAFETY: a successful accept gives us a new descriptor, and each completion is turned
        // into an owner once: the loop asks once per event.
        return Accepted::One(unsafe { OwnedFd::from_raw_fd(completion.result) });
    }
    match Errno::from_raw_os_error(-completion.result) {
        Errno::CANCELED | Errno::AGAIN => Accepted::Nothing,
        error => Accepted::Failed(error),
    }
}

fn bits_of(key: Key) -> u64 {
    u64::from(key.generation) << 28 | u64::from(key.slot)
}

fn key_of(user_data: u64) -> Key {
    Key {
        slot: user_data as u32 & (SLOTS_MAX - 1),
        generation: (user_data >> 28) as u32,
    }
}
