//! Commands about the connection itself.

mod auth;
mod client;
mod client_kill;
mod hello;
mod ping;
mod select;

use engine::Command;

/// The group's commands.
pub static COMMANDS: &[&Command] = &[
    &auth::AUTH,
    &client::CLIENT,
    &ping::ECHO,
    &hello::HELLO,
    &ping::PING,
    &ping::QUIT,
    &select::RESET,
    &select::SELECT,
];
