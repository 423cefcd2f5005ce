//! Starting the loops and steering them from outside.

use crate::backend::Backend;
use crate::config::{IoBackend, ListenAddress, ListenSpec, NetConfig};
use crate::crew::{Berth, Crew, Mail};
use crate::epoll::Epoll;
use crate::listener::{BindError, Listener};
use crate::reactor::Reactor;
use crate::service::Service;
use crate::stats::LoopStats;
use crate::sys::uring::Uring;
use env::sync::Mutex;
use env::thread::JoinHandle;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;
use std::{fmt, io};

/// Why a server did not start.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// A listener could not be made.
    Bind(BindError),
    /// The kernel interface asked for cannot be had.
    Backend(io::Error),
    /// A thread or descriptor could not be made.
    Resources(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bind(error) => error.fmt(f),
            Self::Backend(error) => write!(f, "Cannot use io_uring: {error}"),
            Self::Resources(error) => write!(f, "Cannot start an I/O thread: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

/// Makes running servers.
#[derive(Debug)]
pub struct Server;

impl Server {
    /// Binds the listeners, starts the loops and serves. Listener `i` of `listeners` has the number
    /// `i` in [`Peer::listener`](crate::Peer::listener); an optional one that is not available is
    /// left out (its number stays unused).
    pub fn start<S: Service>(
        config: &NetConfig,
        listeners: &[ListenSpec],
        service: &Arc<S>,
    ) -> Result<Handle, StartError> {
        assert!(
            config.loops >= 1 && u16::try_from(config.loops).is_ok(),
            "1 to 65535 loops"
        );
        let mut open = Vec::with_capacity(listeners.len());
        for spec in listeners {
            open.push(
                Listener::open(spec)
                    .map_err(StartError::Bind)?
                    .map(Arc::new),
            );
        }
        let berths = (0..config.loops)
            .map(|_| Berth::new())
            .collect::<io::Result<Vec<_>>>()
            .map_err(StartError::Resources)?;
        let crew = Arc::new(Crew {
            berths,
            messages: Arc::clone(&config.messages),
            tcp_keepalive_s: AtomicU32::new(config.tcp_keepalive_s),
        });
        let control = Control {
            crew: Arc::clone(&crew),
            threads: Mutex::new(Vec::new()),
        };
        if let Err(error) = start_loops(config, &crew, service, &control.threads) {
            control.stop(Duration::ZERO);
            return Err(error);
        }
        for (index, listener) in open.iter().enumerate() {
            if let Some(listener) = listener {
                control.send(
                    0,
                    Mail::Listen {
                        index: index as u32,
                        listener: Arc::clone(listener),
                    },
                );
            }
        }
        Ok(Handle {
            control: Arc::new(control),
            listeners: Arc::new(Mutex::new(open)),
        })
    }
}

/// Steers a running server. Clones steer the same one; it runs until [`Handle::stop`].
#[derive(Clone)]
pub struct Handle {
    control: Arc<dyn Steer>,
    listeners: Arc<Mutex<Vec<Option<Arc<Listener>>>>>,
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle")
            .field("listeners", &self.listeners())
            .finish_non_exhaustive()
    }
}

impl Handle {
    /// Stops accepting, sends what is pending for at most `flush_max`, closes every connection and
    /// waits for the loops to end. Not to be called on a loop's thread. A second call does nothing.
    pub fn stop(&self, flush_max: Duration) {
        let open: Vec<_> = self.listeners.lock().drain(..).flatten().collect();
        for listener in open {
            listener.shut();
        }
        self.control.stop(flush_max);
    }

    /// Stops accepting; what is open stays open. New connections wait in the accept queue.
    pub fn pause_accepting(&self) {
        self.control.set_accepting(false);
    }

    /// Takes up accepting again.
    pub fn resume_accepting(&self) {
        self.control.set_accepting(true);
    }

    /// Listens on one more address and returns its number; `None` if the address is optional and
    /// not available. Any thread may call this, a loop's too.
    pub fn add_listener(&self, spec: &ListenSpec) -> Result<Option<usize>, BindError> {
        let Some(listener) = Listener::open(spec)? else {
            return Ok(None);
        };
        let listener = Arc::new(listener);
        let mut all = self.listeners.lock();
        let index = all.len();
        all.push(Some(Arc::clone(&listener)));
        self.control.listen(index as u32, listener);
        Ok(Some(index))
    }

    /// Stops listening on one address; when this returns, it can be bound again. False if there is
    /// no such listener. Connections stay open. Any thread may call this, a loop's too.
    pub fn remove_listener(&self, index: usize) -> bool {
        let removed = self.listeners.lock().get_mut(index).and_then(Option::take);
        let Some(listener) = removed else {
            return false;
        };
        listener.shut();
        self.control.unlisten(index as u32);
        true
    }

    /// Numbers and addresses of the listeners, with the ports really bound.
    pub fn listeners(&self) -> Vec<(usize, ListenAddress)> {
        let all = self.listeners.lock();
        let open = all.iter().enumerate();
        open.filter_map(|(index, l)| l.as_ref().map(|l| (index, l.address().clone())))
            .collect()
    }

    /// Keepalive seconds for connections accepted from now on; 0 turns it off.
    pub fn set_tcp_keepalive(&self, seconds: u32) {
        self.control.set_keepalive(seconds);
    }

    /// Each loop's counters.
    pub fn stats(&self) -> Vec<LoopStats> {
        self.control.stats()
    }

    /// Makes every loop call [`Service::inbox`].
    pub fn wake_all(&self) {
        self.control.wake_all();
    }
}

/// A [`Control`] without its type of session.
trait Steer: Send + Sync {
    fn stop(&self, flush_max: Duration);
    fn set_accepting(&self, accepting: bool);
    fn listen(&self, index: u32, listener: Arc<Listener>);
    fn unlisten(&self, index: u32);
    fn set_keepalive(&self, seconds: u32);
    fn stats(&self) -> Vec<LoopStats>;
    fn wake_all(&self);
}

struct Control<C> {
    crew: Arc<Crew<C>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl<C> Control<C> {
    fn send(&self, index: usize, letter: Mail<C>) {
        // A loop that has ended needs no letters.
        let _ = self.crew.berths[index].post(letter);
    }
}

impl<C: Send + 'static> Steer for Control<C> {
    fn stop(&self, flush_max: Duration) {
        let flush_ns_max = u64::try_from(flush_max.as_nanos()).unwrap_or(u64::MAX / 2);
        for index in 0..self.crew.berths.len() {
            self.send(index, Mail::Stop { flush_ns_max });
        }
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            if thread.join().is_err() {
                self.crew.say("An I/O thread has panicked");
            }
        }
    }

    fn set_accepting(&self, accepting: bool) {
        self.send(0, Mail::Accepting(accepting));
    }

    fn listen(&self, index: u32, listener: Arc<Listener>) {
        self.send(0, Mail::Listen { index, listener });
    }

    fn unlisten(&self, index: u32) {
        self.send(0, Mail::Unlisten { index });
    }

    fn set_keepalive(&self, seconds: u32) {
        self.crew.tcp_keepalive_s.store(seconds, Ordering::Relaxed);
    }

    fn stats(&self) -> Vec<LoopStats> {
        self.crew.berths.iter().map(Berth::stats).collect()
    }

    fn wake_all(&self) {
        for berth in &self.crew.berths {
            berth.waker.wake();
        }
    }
}

/// Starts all loops and waits until each has its kernel interface.
fn start_loops<S: Service>(
    config: &NetConfig,
    crew: &Arc<Crew<S::Conn>>,
    service: &Arc<S>,
    threads: &Mutex<Vec<JoinHandle<()>>>,
) -> Result<(), StartError> {
    let (report, reports) = mpsc::channel();
    for index in 0..config.loops {
        let crew = Arc::clone(crew);
        let service = Arc::clone(service);
        let report = report.clone();
        let backend = config.backend;
        let cpu = (!config.cpus.is_empty()).then(|| config.cpus[index % config.cpus.len()]);
        let thread = env::thread::spawn_named(&format!("io-{index}"), move || {
            if let Some(cpu) = cpu
                && let Err(error) = env::thread::pin_to_cpu(cpu)
            {
                crew.say(&format!(
                    "Cannot bind I/O thread {index} to CPU {cpu}: {error}"
                ));
            }
            run_loop(index, backend, crew, service, report);
        })
        .map_err(StartError::Resources)?;
        threads.lock().push(thread);
    }
    drop(report);
    reports
        .iter()
        .try_for_each(|made| made)
        .map_err(StartError::Backend)
}

/// The body of a loop's thread. Reports once whether it has a backend.
fn run_loop<S: Service>(
    index: usize,
    wanted: IoBackend,
    crew: Arc<Crew<S::Conn>>,
    service: Arc<S>,
    report: mpsc::Sender<io::Result<()>>,
) {
    let waker = crew.berths[index].waker.clone();
    if wanted != IoBackend::Epoll {
        match Uring::new(&waker) {
            Ok(backend) => return serve(index, backend, crew, service, report),
            Err(error) if wanted == IoBackend::IoUring => {
                let _ = report.send(Err(error));
                return;
            }
            Err(error) => {
                if index == 0 {
                    crew.say(&format!("io_uring is not available ({error}), using epoll"));
                }
            }
        }
    }
    match Epoll::new(&waker) {
        Ok(backend) => serve(index, backend, crew, service, report),
        Err(error) => {
            let _ = report.send(Err(error));
        }
    }
}

fn serve<S: Service, B: Backend>(
    index: usize,
    backend: B,
    crew: Arc<Crew<S::Conn>>,
    service: Arc<S>,
    report: mpsc::Sender<io::Result<()>>,
) {
    crew.berths[index].set_backend(B::NAME);
    let reactor = Reactor::new(index, service, backend, crew);
    let _ = report.send(Ok(()));
    // The starter waits until nobody can report any more.
    drop(report);
    reactor.run();
}
