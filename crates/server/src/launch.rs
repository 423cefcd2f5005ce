//! From the command line to a server that has ended.
//!
//! The order matters: the process title is taken over and signals are blocked while there is one
//! thread; the configuration is read before the process goes to the background, so that its errors
//! are seen; threads start after that.

use crate::apply::LiveChanges;
use crate::args::Sources;
use crate::host::Stop;
use crate::logging::{Format, Log};
use crate::process::{self, OomScore, PidFile, Supervisor};
use crate::surroundings::RealSurroundings;
use crate::{running, signals, usage};
use engine::config::{Apply, Config, FatalConfig, Surroundings, system_reason};
use env::process::Title;
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// Reads the configuration from where the command line says. Enters the directory it names.
fn configure(sources: &Sources) -> Result<Config, FatalConfig> {
    let mut surroundings = RealSurroundings;
    let mut text = Vec::new();
    if let Some(path) = &sources.file {
        text = surroundings.read(path).map_err(|error| FatalConfig::File {
            path: String::from_utf8_lossy(path).into_owned(),
            reason: system_reason(&error),
        })?;
    }
    if sources.stdin {
        if text.last().is_some_and(|byte| *byte != b'\n') {
            text.push(b'\n');
        }
        std::io::stdin()
            .read_to_end(&mut text)
            .map_err(|error| FatalConfig::File {
                path: "-".to_owned(),
                reason: system_reason(&error),
            })?;
    }
    if !sources.options.is_empty() {
        text.push(b'\n');
        text.extend_from_slice(&sources.options);
    }
    let config = Config::new();
    config.load(&text, &mut surroundings)?;
    match env::fs::current_directory() {
        Ok(path) => config.note_directory(path.as_os_str().as_bytes()),
        Err(error) => {
            let reason = system_reason(&error);
            return Err(FatalConfig::Whole(format!(
                "Can't find the working directory: {reason}"
            )));
        }
    }
    Ok(config)
}

/// Directs the log to where the configuration wants it.
fn direct_log(log: &Log, config: &Config) -> Result<(), FatalConfig> {
    let format = if config.log_format() == "json" {
        Format::Json
    } else {
        Format::Redis
    };
    let file = config.logfile();
    let file = (!file.is_empty()).then(|| process::absolute(Path::new(OsStr::from_bytes(&file))));
    log.set_level(config.log_level());
    log.configure(format, file).map_err(|error| {
        FatalConfig::Whole(format!(
            "Can't open the log file: {}",
            system_reason(&error)
        ))
    })
}

/// Runs the server until it is told to stop. Gives the exit code.
pub(crate) fn serve(sources: &Sources) -> u8 {
    let title = Title::take();
    let log = Log::install();
    let config_file = sources.file.as_ref().map_or(String::new(), |path| {
        process::absolute(Path::new(OsStr::from_bytes(path)))
            .display()
            .to_string()
    });
    let config = match configure(sources).and_then(|config| {
        direct_log(&log, &config)?;
        Ok(config)
    }) {
        Ok(config) => Arc::new(config),
        Err(fatal @ FatalConfig::File { .. }) => {
            tracing::error!("{fatal}");
            return 1;
        }
        Err(fatal) => {
            eprintln!("{fatal}");
            return 1;
        }
    };
    let supervisor = Supervisor::of(&config);
    let background = config.daemonize() && supervisor == Supervisor::None;
    if background && let Err(error) = env::process::daemonize() {
        tracing::error!("Can't go to the background: {}", system_reason(&error));
        return 1;
    }
    greet(sources);
    log.set_serving();
    let launched = Launched {
        log: Arc::clone(&log),
        config,
        config_file,
        supervisor,
        background,
        title,
    };
    let code = match launched.run() {
        Ok(()) => 0,
        Err(reason) => {
            tracing::error!("{reason}");
            1
        }
    };
    log.flush();
    code
}

fn greet(sources: &Sources) {
    let (commit, modified) = usage::commit();
    let (version, bits, pid) = (usage::VERSION, usize::BITS, env::process::id());
    tracing::warn!("oO0OoO0OoO0Oo Pronghorn is starting oO0OoO0OoO0Oo");
    tracing::warn!(
        "Pronghorn version={version}, bits={bits}, commit={commit}, modified={modified}, pid={pid}, \
         just started"
    );
    if sources.nothing {
        tracing::warn!(
            "Warning: no config file specified, using the default config. In order to specify a \
             config file use pronghorn /path/to/pronghorn.conf"
        );
    } else {
        tracing::warn!("Configuration loaded");
    }
}

/// A process that is ready to serve.
struct Launched {
    log: Arc<Log>,
    config: Arc<Config>,
    config_file: String,
    supervisor: Supervisor,
    background: bool,
    title: Option<Title>,
}

impl Launched {
    /// Serves until the end.
    fn run(self) -> Result<(), String> {
        let config = &self.config;
        process::adjust_open_files(config)?;
        if config.unixsocket().is_empty() && (config.port() == 0 || config.bind().is_empty()) {
            return Err("Configured to not listen anywhere, exiting.".to_owned());
        }
        let no_thread = |error: std::io::Error| format!("Failed starting a thread: {error}");
        let signals = signals::take().map_err(|error| format!("Can't take signals: {error}"))?;
        self.log.start_writer().map_err(no_thread)?;
        let stop = Arc::new(Stop::default());
        signals::watch(signals, Arc::clone(config), Arc::clone(&stop)).map_err(no_thread)?;

        let running = running::start(config, self.config_file.clone(), &stop)?;
        let pidfile = PidFile::create(config, self.background);
        let title = self.title.filter(|_| config.set_proc_title());
        let changes = LiveChanges::new(
            running.net.clone(),
            Arc::clone(&self.log),
            title,
            self.config_file,
            OomScore::remember(),
            config,
        );
        start_with(&changes, config);
        config.set_apply(Box::new(changes));
        announce(config, &running, &self.log);
        self.supervisor.ready();

        stop.wait();
        tracing::warn!("User requested shutdown...");
        self.supervisor.stopping();
        running.stop();
        if let Some(pidfile) = pidfile {
            pidfile.remove();
        }
        tracing::warn!("Pronghorn is now ready to exit, bye bye...");
        Ok(())
    }
}

/// Brings the process into the state that directives ask for. What the system refuses here has been
/// logged and stops nobody.
fn start_with(changes: &LiveChanges, config: &Config) {
    let _ = changes.process_title(config);
    if config.oom_score_adj() != "no" {
        let _ = changes.oom_score(config);
    }
    if let Err(reason) = changes.allocator_threads(config) {
        tracing::warn!("jemalloc-bg-thread: {reason}");
    }
}

fn announce(config: &Config, running: &running::Running, log: &Log) {
    let port = config.port();
    if config.always_show_logo() || (log.is_terminal() && config.log_format() != "json") {
        log.raw(&usage::logo(port));
    } else {
        tracing::info!("Running mode=standalone, port={port}.");
    }
    let backend = running.server.host().io_backend();
    tracing::info!("I/O backend: {backend}, threads: {}", running.loops);
    tracing::warn!("Server initialized");
    if port > 0 && !config.bind().is_empty() {
        tracing::info!("Ready to accept connections");
    }
    let unixsocket = config.unixsocket();
    if !unixsocket.is_empty() {
        tracing::info!("The server is now ready to accept connections at {unixsocket}");
    }
}
