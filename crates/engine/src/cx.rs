//! What a handler works with.

use crate::clients::Client;
use crate::command::Command;
use crate::error::Error;
use crate::registry::CommandId;
use crate::server::Server;
use crate::session::Session;
use crate::stats::{ThreadStats, bump};
use env::sync::Arc;
use resp::Reply;
use store::{Edit, Hold, SlowCx, View};

/// The context of one command: its locks, its reply, its connection, the server.
#[derive(Debug)]
pub struct Cx<'a> {
    /// The server.
    pub server: &'a Arc<Server>,
    /// The connection's state.
    pub session: &'a mut Session,
    /// The connection's shared description.
    pub client: &'a Arc<Client>,
    /// Where the reply goes.
    pub reply: Reply<'a>,
    /// The hold on the command's keys, numbered in the order of the key specifications.
    pub hold: Hold<'a>,
    /// The command.
    pub command: CommandId,
    /// Counters of this thread.
    pub stats: &'a ThreadStats,
    /// Unix time of this command, ms.
    pub now_ms: i64,
    /// Which loop's command this is.
    pub loop_index: usize,
    /// On the slow lane: call now and then in long work.
    pub breath: Option<&'a SlowCx<'a>>,
}

impl<'a> Cx<'a> {
    /// The static of the running command.
    pub fn command(&self) -> &'static Command {
        self.server.registry.entry(self.command).command
    }

    /// The running command's full name in small letters, for error texts.
    pub fn command_name(&self) -> &str {
        &self.server.registry.entry(self.command).full_name
    }

    /// Reads key `key` and lets `read` write the reply. `read` may be called several times; what it
    /// wrote before is undone. Counts the hit or miss.
    ///
    /// # Errors
    /// What `read` returns, or [`Error::Retry`], which the handler passes on.
    #[inline]
    pub fn read<R>(
        &mut self,
        key: usize,
        mut read: impl FnMut(&mut Reply<'_>, Option<&View<'_>>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let mark = self.reply.mark();
        let reply = &mut self.reply;
        let mut found = false;
        let mut again = false;
        let result = self
            .hold
            .view(key, |view| {
                if again {
                    reply.truncate_to(mark);
                }
                again = true;
                found = view.is_some();
                read(reply, view)
            })
            .map_err(|store::Retry| Error::Retry)??;
        bump(
            if found {
                &self.stats.hits
            } else {
                &self.stats.misses
            },
            1,
        );
        Ok(result)
    }

    /// Looks at key `key` without writing a reply and without counting a hit.
    ///
    /// # Errors
    /// What `look` returns, or [`Error::Retry`].
    #[inline]
    pub fn look<R>(
        &mut self,
        key: usize,
        look: impl FnMut(Option<&View<'_>>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        self.hold
            .view(key, look)
            .map_err(|store::Retry| Error::Retry)?
    }

    /// Opens key `key` for changing.
    #[inline]
    pub fn edit(&mut self, key: usize) -> Edit<'_, 'a> {
        self.hold.edit(key)
    }

    /// Gives way on the slow lane; on a loop it does nothing. True if the work should stop, because
    /// nobody waits for its reply any more; only work that changes nothing may obey.
    pub fn breathe(&self) -> bool {
        self.breath.is_some_and(|breath| breath.breathe().is_err())
    }
}

impl From<store::OutOfMemory> for Error {
    fn from(_: store::OutOfMemory) -> Self {
        Error::OutOfMemory
    }
}
