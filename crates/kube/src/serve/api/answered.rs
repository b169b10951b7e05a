//! The answers that were made from one picture, as they are sent: however many pages are open, each is made once.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use plimsoll_ui::{Failure, Question};
use tokio::sync::OnceCell;

/// At most so many answers of one picture are kept. Pages that show the same ask the same.
const MOST: usize = 64;

/// No more answers are kept once they take so many bytes.
const MOST_BYTES: usize = 64 << 20;

/// An answer as it is sent.
pub(super) type Sent = Result<Bytes, Failure>;

/// A question, and the namespaces whose pods are not named to the user.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    question: Question,
    hidden: BTreeSet<String>,
}

/// The answers that were made from one picture.
#[derive(Debug, Default)]
pub(super) struct Answered {
    known: Mutex<Vec<(Asked, Arc<OnceCell<Sent>>)>>,
    bytes: AtomicUsize,
}

impl Answered {
    /// The answer to a question for users from whom these namespaces are hidden: a known one, or else the one that `make`
    /// makes. Whoever asks the same meanwhile waits for it.
    pub(super) async fn get_or_make<E>(
        &self,
        question: Question,
        hidden: BTreeSet<String>,
        make: impl Future<Output = Result<Sent, E>>,
    ) -> Result<Sent, E> {
        let cell = self.cell(Asked { question, hidden });
        let counted = async {
            let sent = make.await?;
            if let Ok(bytes) = &sent {
                self.bytes.fetch_add(bytes.len(), Ordering::Relaxed);
            }
            Ok(sent)
        };
        cell.get_or_try_init(|| counted).await.cloned()
    }

    fn cell(&self, asked: Asked) -> Arc<OnceCell<Sent>> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, cell)) = known.iter().find(|(other, _)| *other == asked) {
            return cell.clone();
        }
        let cell = Arc::new(OnceCell::new());
        if known.len() < MOST && self.bytes.load(Ordering::Relaxed) < MOST_BYTES {
            known.push((asked, cell.clone()));
        }
        cell
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::future::join_all;
    use plimsoll_ui::PodsQuestion;

    use super::*;

    /// Asks, and counts how often the answer is made.
    async fn ask(answered: &Answered, question: Question, hidden: &[&str], made: &AtomicUsize) {
        let hidden = hidden.iter().map(|name| (*name).to_owned()).collect();
        let answer = async {
            tokio::task::yield_now().await;
            made.fetch_add(1, Ordering::Relaxed);
            Ok::<_, Infallible>(Ok(Bytes::from_static(b"{}\n")))
        };
        let Ok(sent) = answered.get_or_make(question, hidden, answer).await;
        assert_eq!(sent, Ok(Bytes::from_static(b"{}\n")));
    }

    #[tokio::test]
    async fn ten_pages_that_ask_the_same_get_one_answer() {
        let (answered, made) = (Answered::default(), AtomicUsize::new(0));
        join_all((0..10).map(|_| ask(&answered, Question::Nodes, &[], &made))).await;
        assert_eq!(made.load(Ordering::Relaxed), 1);
        join_all((0..10).map(|_| ask(&answered, Question::Overview, &[], &made))).await;
        assert_eq!(made.load(Ordering::Relaxed), 2);
    }

    #[tokio::test]
    async fn users_who_may_see_different_pods_get_answers_of_their_own() {
        let (answered, made) = (Answered::default(), AtomicUsize::new(0));
        for hidden in [&[][..], &["pay"], &["pay", "shop"], &["pay"]] {
            ask(&answered, Question::Groups, hidden, &made).await;
        }
        assert_eq!(made.load(Ordering::Relaxed), 3);
    }

    #[tokio::test]
    async fn no_more_answers_are_kept_than_there_is_room_for() {
        let (answered, made) = (Answered::default(), AtomicUsize::new(0));
        let page = |from| Question::Pods(PodsQuestion { from, ..PodsQuestion::default() });
        for from in 0..2 * MOST {
            ask(&answered, page(from), &[], &made).await;
        }
        assert_eq!(answered.known.lock().expect("nobody panicked").len(), MOST);
        ask(&answered, page(0), &[], &made).await;
        assert_eq!(made.load(Ordering::Relaxed), 2 * MOST, "the first ones are kept");
    }
}
