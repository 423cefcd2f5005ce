//! The floor server on io_uring: one issuer, deferred task work, multishot accept and receive with
//! a ring of provided buffers, connections as registered descriptors.
//!
//! # Protocol with the kernel
//!
//! - A *buffer* of the pool belongs to the kernel while it is listed in the buffer ring between
//!   the kernel's head and our tail. A receive completion hands it to us; we read it and list it
//!   again before the next one is looked at.
//! - A *send* reads `Connection::sending` until its completion has been seen. While one is in
//!   flight that vector is neither changed nor dropped; new replies gather in `queued`. Hence a
//!   connection's slot is given up only when no send and no receive is in flight.
//! - Memory that the kernel may write (pool, buffer ring) is mapped for the life of the process:
//!   `serve` returns only on an error, after which the process ends.
//!
//! ```text
//! user_data   0 accept | index << 2 + 1 receive | index << 2 + 2 send | 3 close
//! ```

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::types::{BufRingEntry, Fd, Fixed};
use io_uring::{IoUring, cqueue, opcode, squeue};
use rustix::mm::{MapFlags, ProtFlags};

use super::Replies;

const RING_ENTRIES: u32 = 1024;
const CONNECTIONS_MAX: u32 = 4096;
const BUFFERS: u16 = 64;
const BUFFER_BYTES: usize = 8192;
const GROUP: u16 = 0;

const ACCEPT: u64 = 0;
const RECEIVE: u64 = 1;
const SEND: u64 = 2;
const CLOSE: u64 = 3;

/// A connection of the registered-descriptor table; its index there is its index here.
#[derive(Debug, Default)]
struct Connection {
    partial: Vec<u8>,
    /// What the kernel reads from while `send_in_flight`.
    sending: Vec<u8>,
    queued: Vec<u8>,
    send_in_flight: bool,
    receive_in_flight: bool,
    closing: bool,
}

struct Server<'a> {
    ring: IoUring,
    pool: BufferPool,
    connections: Vec<Connection>,
    replies: &'a Replies,
    listener: Fd,
}

pub(super) fn serve(listener: &OwnedFd, replies: &Replies) -> io::Result<()> {
    let ring = IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_cqsize(RING_ENTRIES * 4)
        .build(RING_ENTRIES)?;
    ring.submitter().register_files_sparse(CONNECTIONS_MAX)?;
    let pool = BufferPool::new(&ring)?;
    let mut connections = Vec::new();
    connections.resize_with(CONNECTIONS_MAX as usize, Connection::default);
    let listener = Fd(listener.as_raw_fd());
    let mut server = Server {
        ring,
        pool,
        connections,
        replies,
        listener,
    };
    server.accept()?;
    let mut completions = Vec::with_capacity(RING_ENTRIES as usize * 4);
    loop {
        match server.ring.submit_and_wait(1) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => drop(result?),
        }
        completions.extend(
            server
                .ring
                .completion()
                .map(|entry| (entry.user_data(), entry.result(), entry.flags())),
        );
        // Replies are sent after the whole batch is read, one send per connection.
        for &(token, result, flags) in &completions {
            server.complete(token, result, flags)?;
        }
        for &(token, ..) in &completions {
            if token & 3 == RECEIVE || token & 3 == SEND {
                server.flush((token >> 2) as u32)?;
            }
        }
        completions.clear();
    }
}

impl Server<'_> {
    fn complete(&mut self, token: u64, result: i32, flags: u32) -> io::Result<()> {
        let index = (token >> 2) as u32;
        match token & 3 {
            ACCEPT => {
                if result >= 0 {
                    self.connections[result as usize] = Connection::default();
                    self.receive(result as u32)?;
                } else {
                    // Most likely the table is full; the client sees a closed connection.
                    eprintln!("floor: accept: {}", io::Error::from_raw_os_error(-result));
                }
                if !cqueue::more(flags) {
                    self.accept()?;
                }
            }
            RECEIVE => self.received(index, result, flags)?,
            SEND => {
                let connection = &mut self.connections[index as usize];
                connection.send_in_flight = false;
                connection.closing |= result != connection.sending.len() as i32;
                connection.sending.clear();
            }
            _ => assert_eq!(token, CLOSE),
        }
        Ok(())
    }

    #[inline]
    fn received(&mut self, index: u32, result: i32, flags: u32) -> io::Result<()> {
        let connection = &mut self.connections[index as usize];
        if let Some(buffer) = cqueue::buffer_select(flags) {
            let piece = self.pool.filled(buffer, result.max(0) as usize);
            if !connection.closing {
                let queued = &mut connection.queued;
                let answered = self
                    .replies
                    .answer_piece(&mut connection.partial, piece, queued);
                connection.closing = answered.is_err();
            }
            self.pool.give_back(buffer);
        }
        // An empty pool ends the multishot receive without ending the stream.
        connection.closing |= result <= 0 && result != -libc::ENOBUFS;
        if !cqueue::more(flags) {
            connection.receive_in_flight = false;
            if !connection.closing {
                self.receive(index)?;
            }
        }
        Ok(())
    }

    /// Sends what has gathered, or gives the connection up if it is over and nothing is in flight.
    #[inline]
    fn flush(&mut self, index: u32) -> io::Result<()> {
        let connection = &mut self.connections[index as usize];
        if connection.send_in_flight {
            return Ok(());
        }
        if connection.closing {
            if connection.receive_in_flight {
                let cancel = opcode::AsyncCancel::new(u64::from(index) << 2 | RECEIVE);
                return self.push(&cancel.build().user_data(CLOSE));
            }
            // A closed slot may be reused by the next accept; mark it so that it is closed once.
            *connection = Connection::default();
            let close = opcode::Close::new(Fixed(index)).build().user_data(CLOSE);
            return self.push(&close);
        }
        if connection.queued.is_empty() {
            return Ok(());
        }
        std::mem::swap(&mut connection.sending, &mut connection.queued);
        connection.send_in_flight = true;
        let bytes = &connection.sending;
        let send = opcode::Send::new(Fixed(index), bytes.as_ptr(), bytes.len() as u32)
            .flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL)
            .build()
            .user_data(u64::from(index) << 2 | SEND);
        self.push(&send)
    }

    fn accept(&mut self) -> io::Result<()> {
        let accept = opcode::AcceptMulti::new(self.listener)
            .allocate_file_index(true)
            .build()
            .user_data(ACCEPT);
        self.push(&accept)
    }

    fn receive(&mut self, index: u32) -> io::Result<()> {
        self.connections[index as usize].receive_in_flight = true;
        let receive = opcode::RecvMulti::new(Fixed(index), GROUP)
            .build()
            .user_data(u64::from(index) << 2 | RECEIVE);
        self.push(&receive)
    }

    #[inline]
    #[expect(unsafe_code, reason = "submission entries carry raw pointers")]
    fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        loop {
            // SAFETY: the only entries with pointers are sends. They point into
            // `Connection::sending`, which stays as it is until the completion is seen (module
            // header), and `connections` never grows, so the vectors' heap blocks do not move.
            if unsafe { self.ring.submission().push(entry) }.is_ok() {
                return Ok(());
            }
            self.ring.submit()?;
        }
    }
}

/// The receive buffers and the ring that lists the free ones.
///
/// ```text
/// ring:  [addr len bid resv] x BUFFERS; `resv` of entry 0 is the tail
/// pool:  BUFFERS x BUFFER_BYTES
/// ```
struct BufferPool {
    ring: *mut BufRingEntry,
    pool: *mut u8,
    tail: u16,
}

impl BufferPool {
    #[expect(unsafe_code, reason = "memory shared with the kernel")]
    fn new(ring: &IoUring) -> io::Result<Self> {
        let map = |bytes: usize| {
            // SAFETY: an anonymous private mapping at an address of the kernel's choice.
            unsafe {
                rustix::mm::mmap_anonymous(
                    ptr::null_mut(),
                    bytes,
                    ProtFlags::READ | ProtFlags::WRITE,
                    MapFlags::PRIVATE | MapFlags::POPULATE,
                )
            }
        };
        let entries = map(usize::from(BUFFERS) * size_of::<BufRingEntry>())?;
        let pool = map(usize::from(BUFFERS) * BUFFER_BYTES)?;
        // SAFETY: the mapping is page-aligned, large enough for BUFFERS entries, and never
        // unmapped.
        unsafe {
            ring.submitter()
                .register_buf_ring_with_flags(entries as u64, BUFFERS, GROUP, 0)?;
        }
        let mut buffers = Self {
            ring: entries.cast(),
            pool: pool.cast(),
            tail: 0,
        };
        for buffer in 0..BUFFERS {
            buffers.give_back(buffer);
        }
        Ok(buffers)
    }

    /// The bytes a receive completion reported in `buffer`.
    #[inline]
    #[expect(unsafe_code, reason = "memory shared with the kernel")]
    fn filled(&self, buffer: u16, length: usize) -> &[u8] {
        assert!(buffer < BUFFERS && length <= BUFFER_BYTES);
        // SAFETY: 1. the range lies in the pool (assert above); 2. the completion handed the buffer
        // to us, and the kernel does not write it until `give_back`, which needs `&mut self`.
        unsafe {
            std::slice::from_raw_parts(self.pool.add(usize::from(buffer) * BUFFER_BYTES), length)
        }
    }

    /// Lists `buffer` as free.
    #[inline]
    #[expect(unsafe_code, reason = "memory shared with the kernel")]
    fn give_back(&mut self, buffer: u16) {
        assert!(buffer < BUFFERS);
        let place = usize::from(self.tail % BUFFERS);
        // SAFETY: 1. `place` and `buffer` are below BUFFERS, so both pointers stay in their
        // mappings; 2. the entry at the tail is not read by the kernel before the tail passes it;
        // 3. the fields are set one by one because entry 0 overlaps the tail; 4. the tail is
        // written with release order, so the kernel sees the entry first.
        unsafe {
            let entry = &mut *self.ring.add(place);
            entry.set_addr(self.pool.add(usize::from(buffer) * BUFFER_BYTES) as u64);
            entry.set_len(BUFFER_BYTES as u32);
            entry.set_bid(buffer);
            self.tail = self.tail.wrapping_add(1);
            let tail = BufRingEntry::tail(self.ring).cast_mut();
            AtomicU16::from_ptr(tail).store(self.tail, Ordering::Release);
        }
    }
}
