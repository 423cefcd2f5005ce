//! The process's one right to wait for a key while holding others.
//!
//! Only the owner of the token may wait while it holds locks, and it waits for running holders
//! only, none of which waits: so no cycle can exist. The queue for the token is first come, first
//! served: a token given up goes straight to the oldest claim, and no newcomer can take it in
//! between.
//!
//! Whoever holds key locks may only *try* the token. To queue for it while holding locks could
//! close a cycle through a key that the token's owner waits for.

use super::request::Wake;
use env::sync::Mutex;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

/// The token's state; one per process.
#[derive(Clone, Default)]
pub struct WaitToken(Arc<Desk>);

struct Desk {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Owned, or given to a claim that has not collected it.
    taken: bool,
    /// Claim the token was given to.
    given_to: Option<u64>,
    next_claim: u64,
    queue: VecDeque<(u64, Arc<dyn Wake>)>,
}

/// Ownership of the token; dropping it gives the token to the next claim.
pub struct TokenHeld(Arc<Desk>);

/// A place in the queue for the token; dropping it leaves the queue.
pub struct TokenClaim {
    desk: Arc<Desk>,
    id: u64,
    collected: bool,
}

impl WaitToken {
    /// A token nobody owns.
    pub fn new() -> Self {
        Self::default()
    }

    /// The token, if nobody owns it or queues for it.
    pub fn try_take(&self) -> Option<TokenHeld> {
        let mut state = self.0.state.lock();
        let free = !state.taken;
        state.taken = true;
        free.then(|| TokenHeld(Arc::clone(&self.0)))
    }

    /// The token, or a place in the queue: `owner` is woken when the token is there to be
    /// collected. The caller holds no key locks.
    pub fn take_or_queue(&self, owner: Arc<dyn Wake>) -> Result<TokenHeld, TokenClaim> {
        let mut state = self.0.state.lock();
        if !state.taken {
            state.taken = true;
            return Ok(TokenHeld(Arc::clone(&self.0)));
        }
        let id = state.next_claim;
        state.next_claim += 1;
        state.queue.push_back((id, owner));
        Err(TokenClaim {
            desk: Arc::clone(&self.0),
            id,
            collected: false,
        })
    }
}

impl TokenClaim {
    /// The token, if it has been given to this claim.
    pub fn collect(mut self) -> Result<TokenHeld, TokenClaim> {
        let mut state = self.desk.state.lock();
        if state.given_to != Some(self.id) {
            drop(state);
            return Err(self);
        }
        state.given_to = None;
        drop(state);
        self.collected = true;
        Ok(TokenHeld(Arc::clone(&self.desk)))
    }
}

impl Desk {
    /// Hands the token to the oldest claim, or frees it. Returns who is to be woken.
    fn pass_on(state: &mut State) -> Option<Arc<dyn Wake>> {
        let Some((id, owner)) = state.queue.pop_front() else {
            state.taken = false;
            state.given_to = None;
            return None;
        };
        state.given_to = Some(id);
        Some(owner)
    }
}

impl Default for Desk {
    fn default() -> Self {
        Desk {
            state: Mutex::new(State::default()),
        }
    }
}

impl Drop for TokenHeld {
    fn drop(&mut self) {
        let next = Desk::pass_on(&mut self.0.state.lock());
        if let Some(owner) = next {
            owner.wake();
        }
    }
}

impl Drop for TokenClaim {
    fn drop(&mut self) {
        if self.collected {
            return;
        }
        let mut state = self.desk.state.lock();
        let mut next = None;
        if state.given_to == Some(self.id) {
            next = Desk::pass_on(&mut state);
        } else {
            state.queue.retain(|&(id, _)| id != self.id);
        }
        drop(state);
        if let Some(owner) = next {
            owner.wake();
        }
    }
}

impl fmt::Debug for WaitToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.0.state.lock();
        f.debug_struct("WaitToken")
            .field("taken", &state.taken)
            .field("queued", &state.queue.len())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for TokenHeld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHeld")
    }
}

impl fmt::Debug for TokenClaim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenClaim")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}
