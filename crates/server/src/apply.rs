//! Carries out changes that CONFIG SET makes to what runs.

use crate::logging::Log;
use crate::process::{self, OomScore};
use crate::running::tcp_listeners;
use engine::config::{Apply, Config, system_reason};
use env::process::Title;
use env::sync::Mutex;
use net::{ListenAddress, ListenSpec};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

/// A TCP listener that is open, and its number in `net`.
#[derive(Debug)]
struct Open {
    index: usize,
    address: ListenAddress,
}

/// The running parts that directives change.
#[derive(Debug)]
pub(crate) struct LiveChanges {
    net: net::Handle,
    log: Arc<Log>,
    /// TCP listeners, and the port they were opened for.
    open: Mutex<(Vec<Open>, u16)>,
    title: Mutex<Option<Title>>,
    config_file: String,
    oom_score: OomScore,
}

impl LiveChanges {
    /// Steers `net` and the process from now on. `title` is there if it is to be shown.
    pub(crate) fn new(
        net: net::Handle,
        log: Arc<Log>,
        title: Option<Title>,
        config_file: String,
        oom_score: OomScore,
        config: &Config,
    ) -> LiveChanges {
        let open = net
            .listeners()
            .into_iter()
            .filter(|(_, address)| matches!(address, ListenAddress::Tcp(_)))
            .map(|(index, address)| Open { index, address })
            .collect();
        LiveChanges {
            net,
            log,
            open: Mutex::new((open, config.port())),
            title: Mutex::new(title),
            config_file,
            oom_score,
        }
    }

    /// Opens what is wanted and not open, and closes what is open and not wanted. Where old and new
    /// sockets may get into each other's way, the old ones are closed first.
    fn reopen(&self, open: &mut Vec<Open>, wanted: Vec<ListenSpec>) -> Result<(), String> {
        let mut kept = Vec::new();
        let mut missing = Vec::new();
        for spec in wanted {
            match open.iter().position(|old| old.address == spec.address) {
                Some(at) => kept.push(open.swap_remove(at)),
                None => missing.push(spec),
            }
        }
        let port = |address: &ListenAddress| match address {
            ListenAddress::Tcp(address) => address.port(),
            ListenAddress::Unix { .. } => 0,
        };
        let in_the_way = |old: &Open| {
            missing
                .iter()
                .any(|new| port(&new.address) == port(&old.address))
        };
        let (first, last): (Vec<Open>, Vec<Open>) = open.drain(..).partition(in_the_way);
        for old in first {
            self.net.remove_listener(old.index);
        }
        let mut opened = Vec::new();
        let mut failure = None;
        for spec in missing {
            match self.net.add_listener(&spec) {
                Ok(Some(index)) => opened.push(Open {
                    index,
                    address: spec.address,
                }),
                Ok(None) => {}
                Err(error) => {
                    failure = Some(error.to_string());
                    break;
                }
            }
        }
        *open = kept;
        if let Some(failure) = failure {
            for new in opened {
                self.net.remove_listener(new.index);
            }
            open.extend(last);
            return Err(failure);
        }
        for old in last {
            self.net.remove_listener(old.index);
        }
        open.extend(opened);
        Ok(())
    }
}

impl Apply for LiveChanges {
    fn listen(&self, config: &Config) -> Result<(), String> {
        let mut guard = self.open.lock();
        let (open, port) = &mut *guard;
        let port_changed = *port != config.port();
        let result = tcp_listeners(config).and_then(|wanted| self.reopen(open, wanted));
        *port = config.port();
        result.map_err(|reason| {
            tracing::warn!("{reason}");
            if port_changed {
                "Unable to listen on this port. Check server logs.".to_owned()
            } else {
                "Failed to bind to specified addresses.".to_owned()
            }
        })?;
        drop(guard);
        self.process_title(config)
    }

    fn clients_max(&self, config: &Config) -> Result<(), String> {
        process::allow_clients(config)
    }

    fn log_level(&self, config: &Config) -> Result<(), String> {
        self.log.set_level(config.log_level());
        Ok(())
    }

    fn frequency(&self, _: &Config) -> Result<(), String> {
        // Housekeeping reads the rate before each round.
        Ok(())
    }

    fn keepalive(&self, config: &Config) -> Result<(), String> {
        self.net.set_tcp_keepalive(config.tcp_keepalive_s());
        Ok(())
    }

    fn directory(&self, config: &Config) -> Result<(), String> {
        env::fs::set_current_directory(OsStr::from_bytes(&config.dir()))
            .and_then(|()| env::fs::current_directory())
            .map(|path| config.note_directory(path.as_os_str().as_bytes()))
            .map_err(|error| system_reason(&error))
    }

    fn allocator_threads(&self, config: &Config) -> Result<(), String> {
        tikv_jemalloc_ctl::background_thread::write(config.jemalloc_bg_thread())
            .map_err(|error| format!("the allocator refuses: {error}"))
    }

    fn process_title(&self, config: &Config) -> Result<(), String> {
        if let Some(title) = &mut *self.title.lock() {
            process::show_title(title, config, &self.config_file);
        }
        Ok(())
    }

    fn oom_score(&self, config: &Config) -> Result<(), String> {
        self.oom_score.apply(config)
    }
}
