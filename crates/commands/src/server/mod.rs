//! Commands about the server itself.

mod command;
mod command_docs;
mod config;
mod debug;
mod info;
mod info_sections;
mod memory;
mod shutdown;
mod slowlog;
mod time;

use engine::Command;

/// The group's commands.
pub static COMMANDS: &[&Command] = &[
    &command::COMMAND,
    &config::CONFIG,
    &debug::DEBUG,
    &info::INFO,
    &memory::MEMORY,
    &shutdown::SHUTDOWN,
    &slowlog::SLOWLOG,
    &time::TIME,
];
