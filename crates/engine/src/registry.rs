//! All commands by name, and what is derived from their entries once at start.

use crate::command::{Args, Command, Flags, Group, KeySpec};
use std::collections::{BTreeMap, HashMap};

/// Index of a command or subcommand in the registry; also of its statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CommandId(pub u16);

/// One command or subcommand with what is derived from it.
#[derive(Debug)]
pub struct Entry {
    /// The static.
    pub command: &'static Command,
    /// Name for clients in small letters, `config|get` for a subcommand.
    pub full_name: String,
    /// Container, for a subcommand.
    pub parent: Option<CommandId>,
    /// Subcommands in table order.
    pub children: Vec<CommandId>,
    /// Position of its only key, if it has exactly one at a fixed place within its arity, else 0.
    pub one_key: usize,
    /// DEBUG or one of its subcommands.
    pub debug: bool,
    /// All its keys are in one run at fixed places.
    pub simple_keys: Option<KeySpec>,
    /// It takes about a microsecond: such commands share clock readings.
    pub quick: bool,
}

/// The commands of this process. Built once, never changed.
#[derive(Debug)]
pub struct Registry {
    entries: Vec<Entry>,
    /// Open addressing over short keys; see [`short_key`].
    slots: Vec<Slot>,
    mask: usize,
    top_level: Vec<CommandId>,
    children: HashMap<(CommandId, Vec<u8>), CommandId>,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    key: u64,
    id: u16,
    used: bool,
}

/// A name as clients call it no longer: renamed or removed by `rename-command`.
#[derive(Debug, Clone)]
pub struct Rename {
    /// Original name, any case.
    pub from: String,
    /// New name; empty removes the command.
    pub to: String,
}

/// Folds the first eight letters to capitals and mixes in the length.
#[inline]
fn short_key(name: &[u8]) -> u64 {
    let mut word = [0u8; 8];
    let n = name.len().min(8);
    word[..n].copy_from_slice(&name[..n]);
    let folded = u64::from_le_bytes(word) & 0xdfdf_dfdf_dfdf_dfdf;
    folded ^ ((name.len() as u64) << 56).rotate_left(5)
}

#[inline]
fn spread(key: u64) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize
}

impl Registry {
    /// Builds the registry from the tables. Panics on a duplicate name (a broken table); an unknown
    /// name in `renames` or a clash is an error for the operator.
    pub fn new(
        tables: &[&'static [&'static Command]],
        renames: &[Rename],
    ) -> Result<Registry, String> {
        let mut registry = Registry {
            entries: Vec::new(),
            slots: Vec::new(),
            mask: 0,
            top_level: Vec::new(),
            children: HashMap::new(),
        };
        // In order: where names fall together, the same one comes first in every process.
        let mut names: BTreeMap<String, CommandId> = BTreeMap::new();
        for command in tables.iter().copied().flatten() {
            let id = registry.add(command, None);
            registry.top_level.push(id);
            let clash = names.insert(command.name.to_ascii_uppercase(), id);
            assert!(
                clash.is_none(),
                "command {} stands in two tables",
                command.name
            );
        }
        for rename in renames {
            let Some(id) = names.remove(&rename.from.to_ascii_uppercase()) else {
                return Err("No such command in rename-command".to_owned());
            };
            if !rename.to.is_empty() && names.insert(rename.to.to_ascii_uppercase(), id).is_some() {
                return Err("Target command name already exists in rename-command".to_owned());
            }
            if rename.to.is_empty() {
                registry.top_level.retain(|other| *other != id);
            } else {
                registry.entries[id.0 as usize].full_name = rename.to.to_ascii_lowercase();
            }
        }
        registry.index(&names);
        Ok(registry)
    }

    fn add(&mut self, command: &'static Command, parent: Option<CommandId>) -> CommandId {
        let id = CommandId(u16::try_from(self.entries.len()).expect("fewer than 65,536 commands"));
        let own = command.name.to_ascii_lowercase();
        let full_name = match parent {
            Some(parent) => format!("{}|{own}", self.entry(parent).full_name),
            None => own,
        };
        let simple_keys = match command.keys {
            [spec] if !spec.counted => Some(*spec),
            _ => None,
        };
        self.entries.push(Entry {
            command,
            full_name,
            parent,
            children: Vec::new(),
            one_key: match simple_keys {
                Some(spec)
                    if spec.last == 0
                        && command.key_finder.is_none()
                        && command.arity.unsigned_abs() as usize > spec.first =>
                {
                    spec.first
                }
                _ => 0,
            },
            debug: command.name == "DEBUG" || parent.is_some_and(|parent| self.entry(parent).debug),
            quick: command.flags.has(Flags::FAST)
                || (command.group == Group::String && command.slow.is_none()),
            simple_keys,
        });
        if let Some(parent) = parent {
            let name = command.name.to_ascii_uppercase().into_bytes();
            assert!(
                self.children.insert((parent, name), id).is_none(),
                "duplicate subcommand"
            );
        }
        for child in command.subcommands {
            let child = self.add(child, Some(id));
            self.entries[id.0 as usize].children.push(child);
        }
        id
    }

    fn index(&mut self, names: &BTreeMap<String, CommandId>) {
        let size = (names.len() * 4).next_power_of_two();
        self.mask = size - 1;
        self.slots = vec![
            Slot {
                key: 0,
                id: 0,
                used: false
            };
            size
        ];
        for (name, id) in names {
            let key = short_key(name.as_bytes());
            let mut at = spread(key) & self.mask;
            while self.slots[at].used {
                at = (at + 1) & self.mask;
            }
            self.slots[at] = Slot {
                key,
                id: id.0,
                used: true,
            };
        }
    }

    /// The command called `name` (any case), without looking at subcommands.
    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<CommandId> {
        let key = short_key(name);
        let mut at = spread(key) & self.mask;
        loop {
            let slot = self.slots[at];
            if !slot.used {
                return None;
            }
            if slot.key == key {
                let id = CommandId(slot.id);
                if self
                    .entry(id)
                    .full_name
                    .as_bytes()
                    .eq_ignore_ascii_case(name)
                {
                    return Some(id);
                }
            }
            at = (at + 1) & self.mask;
        }
    }

    /// The subcommand of `container` called `name` (any case).
    pub fn find_child(&self, container: CommandId, name: &[u8]) -> Option<CommandId> {
        self.children
            .get(&(container, name.to_ascii_uppercase()))
            .copied()
    }

    /// Resolves a whole command line, subcommand included. `Err(Some(container))`: the container
    /// exists, its subcommand does not.
    #[inline]
    pub fn resolve(&self, args: Args<'_>) -> Result<CommandId, Option<CommandId>> {
        let id = self.find(args.at(0)).ok_or(None)?;
        if self.entry(id).children.is_empty() || args.len() < 2 {
            return Ok(id);
        }
        self.find_child(id, args.at(1)).ok_or(Some(id))
    }

    /// Resolves `name` or `container|sub`, as COMMAND INFO and ACL rules write it.
    pub fn find_full(&self, name: &[u8]) -> Option<CommandId> {
        match name.iter().position(|byte| *byte == b'|') {
            None => self.find(name),
            Some(bar) => self.find_child(self.find(&name[..bar])?, &name[bar + 1..]),
        }
    }

    /// The entry of `id`.
    #[inline]
    pub fn entry(&self, id: CommandId) -> &Entry {
        &self.entries[id.0 as usize]
    }

    /// Commands without subcommands, in table order.
    pub fn top_level(&self) -> &[CommandId] {
        &self.top_level
    }

    /// Number of entries, subcommands included.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if no command is known.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// All ids, subcommands included.
    pub fn ids(&self) -> impl Iterator<Item = CommandId> + use<> {
        (0..self.entries.len() as u16).map(CommandId)
    }

    /// True if the command's keys cannot be told from fixed positions alone.
    pub fn movable_keys(&self, id: CommandId) -> bool {
        let command = self.entry(id).command;
        command.flags.has(Flags::MOVABLE_KEYS) || command.keys.iter().any(|spec| spec.counted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static SUB: Command = Command {
        name: "GET",
        summary: "s",
        arity: 3,
        group: Group::Server,
        ..Command::BASE
    }
    .checked();
    static CONTAINER: Command = Command {
        name: "CONFIG",
        summary: "s",
        arity: -2,
        subcommands: &[&SUB],
        ..Command::BASE
    }
    .checked();
    static GET: Command = Command {
        name: "GET",
        summary: "s",
        arity: 2,
        ..Command::BASE
    }
    .checked();
    static LONG: Command = Command {
        name: "GETKEYSANDMORE",
        summary: "s",
        ..Command::BASE
    }
    .checked();
    static LONGER: Command = Command {
        name: "GETKEYSANDLESS",
        summary: "s",
        ..Command::BASE
    }
    .checked();
    static TABLE: &[&Command] = &[&CONTAINER, &GET, &LONG, &LONGER];

    #[test]
    fn finds_any_case_and_tells_long_names_apart() {
        let registry = Registry::new(&[TABLE], &[]).unwrap();
        let name = |text: &str| {
            registry
                .find(text.as_bytes())
                .map(|id| registry.entry(id).command.name)
        };
        assert_eq!(name("get"), Some("GET"));
        assert_eq!(name("GeT"), Some("GET"));
        assert_eq!(name("getkeysandmore"), Some("GETKEYSANDMORE"));
        assert_eq!(name("getkeysandless"), Some("GETKEYSANDLESS"));
        assert_eq!(name("getkeysandelse"), None);
        assert_eq!(name(""), None);
        assert_eq!(name("GE"), None);
        let full = registry.find_full(b"config|get").unwrap();
        assert_eq!(registry.entry(full).full_name, "config|get");
        assert_eq!(registry.find_full(b"config|nope"), None);
    }

    #[test]
    fn renames_and_removes() {
        let rename = |from: &str, to: &str| Rename {
            from: from.into(),
            to: to.into(),
        };
        let registry =
            Registry::new(&[TABLE], &[rename("get", "fetch"), rename("CONFIG", "")]).unwrap();
        assert!(registry.find(b"get").is_none());
        assert!(registry.find(b"FETCH").is_some());
        assert!(registry.find(b"config").is_none());
        assert!(Registry::new(&[TABLE], &[rename("nope", "x")]).is_err());
        assert!(Registry::new(&[TABLE], &[rename("get", "config")]).is_err());
    }
}
