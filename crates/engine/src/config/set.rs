//! CONFIG SET: several values, all or none.

use super::directive::{Change, Effect, Kind};
use super::value::Value;
use super::{Config, ROWS, find};

/// Who carries out the changes that need more than a new value. Each function finds the new values
/// in `config` and says why they cannot be had; all values are then put back and the functions of
/// those changed before are called again.
pub trait Apply: Send + Sync {
    /// `port` or `bind` changed.
    fn listen(&self, config: &Config) -> Result<(), String>;
    /// `maxclients` changed.
    fn clients_max(&self, config: &Config) -> Result<(), String>;
    /// `loglevel` changed.
    fn log_level(&self, config: &Config) -> Result<(), String>;
    /// `hz` changed.
    fn frequency(&self, config: &Config) -> Result<(), String>;
    /// `tcp-keepalive` changed.
    fn keepalive(&self, config: &Config) -> Result<(), String>;
    /// `dir` changed. On success it calls [`Config::note_directory`].
    fn directory(&self, config: &Config) -> Result<(), String>;
    /// `jemalloc-bg-thread` changed.
    fn allocator_threads(&self, config: &Config) -> Result<(), String>;
    /// `proc-title-template` changed.
    fn process_title(&self, config: &Config) -> Result<(), String>;
    /// `oom-score-adj` or its values changed.
    fn oom_score(&self, config: &Config) -> Result<(), String>;
}

fn carry_out(apply: &dyn Apply, effect: Effect, config: &Config) -> Result<(), String> {
    match effect {
        Effect::Listen => apply.listen(config),
        Effect::ClientsMax => apply.clients_max(config),
        Effect::LogLevel => apply.log_level(config),
        Effect::Frequency => apply.frequency(config),
        Effect::Keepalive => apply.keepalive(config),
        Effect::Directory => apply.directory(config),
        Effect::AllocatorThreads => apply.allocator_threads(config),
        Effect::ProcessTitle => apply.process_title(config),
        Effect::OomScore => apply.oom_score(config),
    }
}

/// One pair of CONFIG SET that may be carried out.
struct Setting {
    index: usize,
    old: Value,
}

fn failed(name: &[u8], reason: &str) -> String {
    let name = String::from_utf8_lossy(name);
    format!("CONFIG SET failed (possibly related to argument '{name}') - {reason}")
}

impl Config {
    /// Sets all pairs of name and value, or none of them. `local`: the client is on this machine.
    ///
    /// # Errors
    /// The text for the client, without its code.
    pub fn set_many(&self, pairs: &[(&[u8], &[u8])], local: bool) -> Result<(), String> {
        let _change = self.change.lock();
        let indices = self.allowed(pairs, local)?;
        let mut settings = Vec::new();
        for (index, (name, given)) in indices.into_iter().zip(pairs) {
            let value = match self.checked(index, &[given]) {
                Ok(value) => value,
                Err(reason) => {
                    self.put_back(&settings);
                    return Err(failed(name, &reason));
                }
            };
            // Stored at once: a directive named again by its other name builds on it.
            settings.push(Setting {
                index,
                old: self.value(index),
            });
            self.store(index, &value);
        }
        self.apply_all(&settings, pairs)
    }

    /// The directives that are named, if they are known, named once and may be changed.
    fn allowed(&self, pairs: &[(&[u8], &[u8])], local: bool) -> Result<Vec<usize>, String> {
        let mut indices = Vec::with_capacity(pairs.len());
        for (at, (name, _)) in pairs.iter().enumerate() {
            let Some(index) = find(name) else {
                let name = String::from_utf8_lossy(name);
                return Err(format!(
                    "Unknown option or number of arguments for CONFIG SET - '{name}'"
                ));
            };
            let protected = !self.enable_protected_configs().allows(local);
            match ROWS[index].change {
                Change::Start => return Err(failed(name, "can't set immutable config")),
                Change::Protected if protected => {
                    return Err(failed(name, "can't set protected config"));
                }
                _ => {}
            }
            if pairs[..at]
                .iter()
                .any(|(earlier, _)| earlier.eq_ignore_ascii_case(name))
            {
                return Err(failed(name, "duplicate parameter"));
            }
            indices.push(index);
        }
        Ok(indices)
    }

    fn apply_all(&self, settings: &[Setting], pairs: &[(&[u8], &[u8])]) -> Result<(), String> {
        let Some(apply) = self.apply.get() else {
            return Ok(());
        };
        let mut done: Vec<Effect> = Vec::new();
        for (setting, (name, _)) in settings.iter().zip(pairs) {
            let row = &ROWS[setting.index];
            let Some(effect) = row.effect else { continue };
            let unchanged = self.value(setting.index) == setting.old;
            if done.contains(&effect) || (unchanged && row.kind != Kind::Directory) {
                continue;
            }
            done.push(effect);
            if let Err(reason) = carry_out(&**apply, effect, self) {
                self.put_back(settings);
                for effect in done {
                    // Best effort: what was in force a moment ago is tried again.
                    let _ = carry_out(&**apply, effect, self);
                }
                return Err(failed(name, &reason));
            }
        }
        Ok(())
    }

    fn put_back(&self, settings: &[Setting]) {
        for setting in settings.iter().rev() {
            self.store(setting.index, &setting.old);
        }
    }
}
