//! The commands as a whole: their facts, their replies and their effects.

mod differential;
mod facts;
mod inside;
mod oracle;
mod semantics;
