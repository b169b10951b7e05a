//! The part of this instance in the leader election.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;

use super::{Exit, RunError};
use crate::client::Connection;
use crate::events::Broadcaster;
use crate::lease::{self, Election, Ended, Leadership, SettingsError, State};
use crate::limit::Rate;

/// How long the release of the lease may take at the end.
const RELEASE: Duration = Duration::from_secs(5);

/// The part of this instance in the leader election.
pub(super) struct Candidacy {
    pub(super) leadership: Option<Leadership>,
    pub(super) state: watch::Receiver<State>,
    /// `None` after it has ended and that was noticed.
    election: Option<JoinHandle<Ended>>,
    /// Keeps the state `Leading` if there is no election.
    _leads: Option<watch::Sender<State>>,
}

impl Candidacy {
    /// Takes part in the election, if there is one.
    pub(super) fn take(
        connection: &Connection,
        settings: Option<lease::Settings>,
        recorder: Arc<Broadcaster>,
        end: CancellationToken,
    ) -> Result<Self, SettingsError> {
        let Some(settings) = settings else {
            let (leads, state) = watch::channel(State::Leading);
            return Ok(Candidacy { leadership: None, state, election: None, _leads: Some(leads) });
        };
        let client = connection.client("leader-election", Rate::UNLIMITED);
        let election = Election::new(client, settings, recorder)?;
        let leadership = election.leadership();
        let state = leadership.state();
        let election = Some(tokio::spawn(election.run(end)));
        Ok(Candidacy { leadership: Some(leadership), state, election, _leads: None })
    }

    /// An instance whose state is `state`.
    #[cfg(test)]
    pub(super) fn at(state: watch::Receiver<State>) -> Self {
        Candidacy { leadership: None, state, election: None, _leads: None }
    }

    /// Waits until this instance leads; `false` if it is stopped before.
    pub(super) async fn wait_to_lead(
        &mut self,
        stop: &CancellationToken,
    ) -> Result<bool, RunError> {
        let mut state = self.state.clone();
        tokio::select! {
            biased;
            () = stop.cancelled() => Ok(false),
            state = state.wait_for(|state| *state != State::Standby) => Ok(state.is_ok()),
            ended = self.election_ended() => ended.map(|_| false),
        }
    }

    /// Waits until the lease is lost, or the election has ended and no longer renews it.
    pub(super) async fn lost(&mut self) -> Result<(), RunError> {
        let mut state = self.state.clone();
        tokio::select! {
            biased;
            Ok(_) = state.wait_for(|state| *state == State::Lost) => Ok(()),
            ended = self.election_ended() => ended.map(|_| ()),
        }
    }

    /// Whether the lease is lost.
    pub(super) fn has_lost(&self) -> bool {
        *self.state.borrow() == State::Lost
    }

    /// Waits until the election has ended; forever if there is none.
    async fn election_ended(&mut self) -> Result<Ended, RunError> {
        let Some(election) = &mut self.election else { return pending().await };
        let ended = election.await;
        self.election = None;
        ended.map_err(|error| broken(&error))
    }

    /// Releases the lease, if it is held.
    pub(super) async fn give_back(&mut self, end: CancellationToken) -> Result<Exit, RunError> {
        end.cancel();
        let Some(election) = self.election.take() else { return Ok(Exit::Stopped) };
        match tokio::time::timeout(RELEASE, election).await {
            Ok(Ok(Ended::Lost)) => Ok(Exit::LostLease),
            Ok(Ok(Ended::Stopped)) => Ok(Exit::Stopped),
            Ok(Err(error)) => Err(broken(&error)),
            Err(_) => {
                tracing::warn!("could not release the lease in time; it will expire");
                Ok(Exit::Stopped)
            }
        }
    }
}

fn broken(error: &JoinError) -> RunError {
    tracing::error!(%error, "leader election failed");
    RunError::Ended("the election")
}
