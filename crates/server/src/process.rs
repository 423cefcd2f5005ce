//! What the server does to its own process: background, process id, open files, title, supervisor.

use engine::config::{Config, fill_title, system_reason};
use env::process::Title;
use sd_notify::NotifyState;
use std::path::{Path, PathBuf};

/// Descriptors besides those of clients: listeners, log, loops.
const FILES_RESERVED: u64 = 32;
/// Where the process id goes in the background, if nothing else is said.
const PIDFILE_DEFAULT: &str = "/var/run/pronghorn.pid";

/// Who watches over the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Supervisor {
    /// Nobody.
    None,
    /// systemd, told through its socket.
    Systemd,
}

impl Supervisor {
    /// The one asked for or found.
    pub(crate) fn of(config: &Config) -> Supervisor {
        let socket = std::env::var_os("NOTIFY_SOCKET").is_some_and(|path| !path.is_empty());
        match config.supervised() {
            "systemd" => {
                if !socket {
                    tracing::warn!(
                        "systemd supervision requested, but NOTIFY_SOCKET is not set: nobody will \
                         be told"
                    );
                }
                Supervisor::Systemd
            }
            "auto" if socket => Supervisor::Systemd,
            _ => Supervisor::None,
        }
    }

    /// Says that the server serves.
    pub(crate) fn ready(self) {
        self.tell(&[
            NotifyState::Ready,
            NotifyState::Status("Ready to accept connections"),
        ]);
    }

    /// Says that the server ends.
    pub(crate) fn stopping(self) {
        self.tell(&[NotifyState::Stopping]);
    }

    fn tell(self, states: &[NotifyState<'_>]) {
        if self == Supervisor::Systemd
            && let Err(error) = sd_notify::notify(states)
        {
            tracing::warn!("systemd supervision error: {error}");
        }
    }
}

/// The file with the process id; removed in the end.
#[derive(Debug)]
pub(crate) struct PidFile(PathBuf);

impl PidFile {
    /// Writes the file that the configuration asks for. One that cannot be written is logged, as
    /// the server can serve without.
    pub(crate) fn create(config: &Config, background: bool) -> Option<PidFile> {
        let asked = config.pidfile().to_text();
        let path = match asked.as_str() {
            "" if background => PIDFILE_DEFAULT,
            "" => return None,
            path => path,
        };
        // Absolute, so that a later change of the directory does not lose it.
        let path = env::fs::current_directory().unwrap_or_default().join(path);
        let text = format!("{}\n", env::process::id());
        match env::fs::create(&path).and_then(|mut file| {
            use std::io::Write;
            file.write_all(text.as_bytes())
        }) {
            Ok(()) => Some(PidFile(path)),
            Err(error) => {
                let reason = system_reason(&error);
                tracing::warn!("Failed to write PID file {}: {reason}", path.display());
                None
            }
        }
    }

    /// Removes it.
    pub(crate) fn remove(self) {
        tracing::info!("Removing the pid file.");
        if let Err(error) = env::fs::remove(&self.0) {
            tracing::warn!("{error}");
        }
    }
}

/// Makes room for `maxclients` open connections, or lowers `maxclients`.
///
/// # Errors
/// If not even one client could be served; the reason.
pub(crate) fn adjust_open_files(config: &Config) -> Result<(), String> {
    let wanted = config.maxclients() as u64 + FILES_RESERVED;
    let before = env::process::open_files_max();
    let (reached, reason) = raise_open_files(wanted);
    if reached >= wanted {
        if before < wanted {
            tracing::info!(
                "Increased maximum number of open files to {reached} (it was originally set to \
                 {before})."
            );
        }
        return Ok(());
    }
    if reached <= FILES_RESERVED {
        return Err(format!(
            "Your current 'ulimit -n' of {reached} is not enough for the server to start. Please \
             increase your open file limit to at least {wanted}. Exiting."
        ));
    }
    let clients = reached - FILES_RESERVED;
    tracing::warn!(
        "You requested maxclients of {} requiring at least {wanted} max file descriptors.",
        config.maxclients()
    );
    tracing::warn!(
        "Server can't set maximum open files to {wanted} because of OS error: {reason}."
    );
    tracing::warn!(
        "Current maximum open files is {reached}. maxclients has been reduced to {clients} to \
         compensate for low ulimit. If you need higher maxclients increase 'ulimit -n'."
    );
    config.note_maxclients(u32::try_from(clients).unwrap_or(u32::MAX));
    Ok(())
}

/// The limit reached and, if it is less than wanted, why.
fn raise_open_files(wanted: u64) -> (u64, String) {
    match env::process::raise_open_files(wanted) {
        Ok(reached) => (reached, "Operation not permitted".to_owned()),
        Err(error) => (env::process::open_files_max(), system_reason(&error)),
    }
}

/// Makes room for a new `maxclients`.
///
/// # Errors
/// The text for CONFIG SET.
pub(crate) fn allow_clients(config: &Config) -> Result<(), String> {
    let wanted = config.maxclients() as u64 + FILES_RESERVED;
    let (reached, _) = raise_open_files(wanted);
    if reached >= wanted {
        return Ok(());
    }
    Err(format!(
        "The operating system is not able to handle the specified number of clients, try with {}",
        reached.saturating_sub(FILES_RESERVED)
    ))
}

/// Shows the title that the template asks for.
pub(crate) fn show_title(title: &mut Title, config: &Config, config_file: &str) {
    let template = config.proc_title_template().to_text();
    let unixsocket = config.unixsocket().to_text();
    let filled = fill_title(&template, |variable| match variable {
        "title" => "pronghorn".to_owned(),
        "listen-addr" if config.port() > 0 => {
            let first = config
                .bind()
                .first()
                .cloned()
                .unwrap_or_else(|| "*".to_owned());
            format!("{first}:{}", config.port())
        }
        "listen-addr" | "unixsocket" => unixsocket.clone(),
        "port" => config.port().to_string(),
        "tls-port" => "0".to_owned(),
        "config-file" => config_file.to_owned(),
        _ => String::new(),
    });
    if let Some(filled) = filled {
        title.set(filled.trim_end());
    }
}

/// The process's out-of-memory score as it was at start, and as the configuration wants it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OomScore {
    original: i64,
}

impl OomScore {
    /// Remembers the score.
    pub(crate) fn remember() -> OomScore {
        OomScore {
            original: env::process::oom_score().unwrap_or(0),
        }
    }

    /// Sets the score that the configuration asks for.
    ///
    /// # Errors
    /// The text for CONFIG SET; the reason is logged.
    pub(crate) fn apply(self, config: &Config) -> Result<(), String> {
        let own = config.oom_score_own();
        let score = match config.oom_score_adj() {
            "no" => self.original,
            "absolute" => own,
            _ => self.original + own,
        }
        .clamp(-1000, 1000);
        if env::process::oom_score().ok() == Some(score) {
            return Ok(());
        }
        env::process::set_oom_score(score).map_err(|error| {
            tracing::warn!("Unable to write oom_score_adj: {}", system_reason(&error));
            "Failed to apply new oom_score_adj configuration, check server logs.".to_owned()
        })
    }
}

/// The absolute form of a path, if it is to be kept beyond a change of the directory.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    env::fs::current_directory().unwrap_or_default().join(path)
}
