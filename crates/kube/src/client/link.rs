//! What all clients of one connection share: the address, the certificates and the credentials. They are
//! reloaded when files change or a program prints others.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use http::HeaderValue;
use kube::client::ConfigExt;
use kube::client::middleware::{AuthLayer, BaseUriLayer, ExtraHeadersLayer};
use tokio::time::Instant;

use super::access::{Access, AccessError, Loaded, load};
use super::explain::{explain, of_credentials};

/// How often certificate files are checked. As in transport/cert_rotation.go,
/// CertCallbackRefreshDuration.
const CHECK_INTERVAL: Duration = Duration::from_mins(5);
/// The shortest interval between reloads because the API server rejected the credentials.
const REJECTED_INTERVAL: Duration = Duration::from_secs(10);
/// The timeout of a program that prints credentials.
const EXEC_TIMEOUT: Duration = Duration::from_mins(1);
/// How long a token is used before its file is read again. As in transport/token_source.go.
const TOKEN_FOR: Duration = Duration::from_secs(50);

/// The shared part of a connection.
#[derive(Debug)]
pub(super) struct Link {
    access: Access,
    built: RwLock<Arc<Built>>,
    looked: Mutex<FileCheck>,
    is_checking: AtomicBool,
}

/// When files were checked last.
#[derive(Debug)]
struct FileCheck {
    at: Instant,
    /// When they were checked because the API server rejected the credentials.
    refused: Option<Instant>,
}

/// A connection that was created from a version of the files.
pub(super) struct Built {
    /// Its number, from 0.
    pub(super) number: u64,
    pub(super) base: BaseUriLayer,
    pub(super) headers: ExtraHeadersLayer,
    pub(super) auth: Option<AuthLayer>,
    pub(super) tls: rustls::ClientConfig,
    pub(super) token: Option<TokenFile>,
    pub(super) loaded: Loaded,
}

impl std::fmt::Debug for Built {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Built { number, loaded, .. } = self;
        f.debug_struct("Built")
            .field("number", number)
            .field("place", &loaded.place)
            .finish_non_exhaustive()
    }
}

impl Link {
    pub(super) async fn new(access: Access) -> Result<Self, AccessError> {
        let built = Built::new(load(&access).await?, 0).await?;
        Ok(Link {
            access,
            built: RwLock::new(Arc::new(built)),
            looked: Mutex::new(FileCheck { at: Instant::now(), refused: None }),
            is_checking: AtomicBool::new(false),
        })
    }

    /// The current connection. Checks the files in the background if it is time to.
    pub(super) fn current(self: &Arc<Self>) -> Arc<Built> {
        let built = self.built.read().unwrap_or_else(PoisonError::into_inner).clone();
        if built.loaded.print != 0 {
            self.check(ReloadReason::Due);
        }
        built
    }

    /// The API server rejected the credentials of `built`.
    pub(super) fn refused(self: &Arc<Self>, built: &Built) {
        let number = self.built.read().unwrap_or_else(PoisonError::into_inner).number;
        if built.number == number && built.loaded.print != 0 {
            self.check(ReloadReason::Refused);
        }
    }

    /// Checks the files in the background, unless that happened a short time ago.
    fn check(self: &Arc<Self>, why: ReloadReason) {
        self.check_by(why, |link| async move { link.renew(why).await });
    }

    /// The same with another way to reload them.
    fn check_by<F>(self: &Arc<Self>, why: ReloadReason, renew: impl FnOnce(Arc<Self>) -> F)
    where
        F: Future<Output = Result<(), AccessError>> + Send + 'static,
    {
        {
            let now = Instant::now();
            let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
            let is_due = match why {
                ReloadReason::Due => CHECK_INTERVAL <= now - looked.at,
                ReloadReason::Refused => {
                    looked.refused.is_none_or(|last| REJECTED_INTERVAL <= now - last)
                }
            };
            if !is_due || self.is_checking.swap(true, Ordering::AcqRel) {
                return;
            }
            looked.at = now;
            if why == ReloadReason::Refused {
                looked.refused = Some(now);
            }
        }
        let (looking, renewed) = (CheckGuard(self.clone()), renew(self.clone()));
        tokio::spawn(async move {
            let _looking = looking;
            if let Err(error) = renewed.await {
                tracing::warn!(%error, "could not reload credentials; the old ones stay in use");
            }
        });
    }

    async fn renew(&self, why: ReloadReason) -> Result<(), AccessError> {
        let old = self.built.read().unwrap_or_else(PoisonError::into_inner).clone();
        let loaded = load(&self.access).await?;
        let is_same = loaded.print == old.loaded.print;
        if is_same && !(why == ReloadReason::Refused && loaded.has_exec) {
            return Ok(());
        }
        let built = Built::new(loaded, old.number + 1).await?;
        tracing::info!(from = %built.loaded.place, "credentials were reloaded");
        *self.built.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(built);
        Ok(())
    }
}

/// A check of the files in progress. It ends even if a library panics, so that the next check can start:
/// credentials that are never reloaded would stop the instance silently.
struct CheckGuard(Arc<Link>);

impl Drop for CheckGuard {
    fn drop(&mut self) {
        self.0.is_checking.store(false, Ordering::Release);
    }
}

/// Why credentials are reloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReloadReason {
    Due,
    Refused,
}

impl Built {
    async fn new(loaded: Loaded, number: u64) -> Result<Self, AccessError> {
        let place = loaded.place.clone();
        let failed = |problem: String| AccessError {
            place: place.clone(),
            field: "exec".to_owned(),
            problem,
            remedy: "run the program by hand to see what it does".to_owned(),
        };
        // This may run a program, which blocks.
        let making = tokio::task::spawn_blocking(move || Built::make(loaded, number));
        match tokio::time::timeout(EXEC_TIMEOUT, making).await {
            Ok(Ok(built)) => built,
            Ok(Err(_)) => Err(failed("it gives credentials that cannot be sent".to_owned())),
            Err(_) => Err(failed(format!("no credentials came within {EXEC_TIMEOUT:?}"))),
        }
    }

    fn make(loaded: Loaded, number: u64) -> Result<Self, AccessError> {
        let wrong = |error: &kube::Error| {
            match error {
            kube::Error::Auth(error) => of_credentials(&loaded, error),
            other => loaded.user_error(
                "",
                explain(other),
                "check certificate-authority, client-certificate and client-key, and their -data forms",
            ),
        }
        };
        let config = &loaded.config;
        let auth = config.auth_layer().map_err(|error| wrong(&error))?;
        let headers = config.extra_headers_layer().map_err(|error| wrong(&error))?;
        let mut tls = config.rustls_client_config().map_err(|error| wrong(&error))?;
        // The connector sets the protocols itself.
        tls.alpn_protocols.clear();
        let token = loaded.token_file.clone().map(TokenFile::new).transpose();
        let token = token.map_err(|error| {
            loaded.user_error("tokenFile", error, "name a file that holds a token")
        })?;
        Ok(Built { number, base: config.base_uri_layer(), headers, auth, tls, token, loaded })
    }
}

/// A token in a file that others update.
pub(super) struct TokenFile {
    path: PathBuf,
    last: Mutex<(HeaderValue, Instant)>,
}

impl TokenFile {
    fn new(path: PathBuf) -> std::io::Result<Self> {
        let last = Mutex::new((TokenFile::read(&path)?, Instant::now()));
        Ok(TokenFile { path, last })
    }

    /// The value of the `Authorization` header. If the file can no longer be read, the last token is used.
    pub(super) fn header(&self) -> HeaderValue {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if TOKEN_FOR < last.1.elapsed() {
            last.1 = Instant::now();
            match TokenFile::read(&self.path) {
                Ok(header) => last.0 = header,
                Err(error) => {
                    tracing::warn!(file = %self.path.display(), %error, "could not read the token file");
                }
            }
        }
        last.0.clone()
    }

    fn read(path: &std::path::Path) -> std::io::Result<HeaderValue> {
        let named = |why: String| std::io::Error::other(format!("{}: {why}", path.display()));
        let token = std::fs::read_to_string(path).map_err(|error| named(error.to_string()))?;
        let token = token.trim();
        if token.is_empty() {
            return Err(named("is empty".to_owned()));
        }
        let header = HeaderValue::try_from(format!("Bearer {token}"));
        let mut header = header.map_err(|_| named("holds no token".to_owned()))?;
        header.set_sensitive(true);
        Ok(header)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// Waits until nobody looks at files. The time is that of the test: less than a second.
    async fn settled(link: &Link) {
        for _ in 0..900 {
            if !link.is_checking.load(Ordering::Acquire) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!("somebody looks at files for ever");
    }

    #[tokio::test(start_paused = true)]
    async fn files_are_looked_at_again_after_a_library_has_panicked_over_them() {
        let access = Access { master: Some("http://localhost:1".to_owned()), ..Access::default() };
        let link = Arc::new(Link::new(access).await.expect("an address is enough"));
        link.check_by(ReloadReason::Refused, |_| async { panic!("half a character, on purpose") });
        settled(&link).await;
        let n_looks = Arc::new(AtomicUsize::new(0));
        let look = || {
            let n_looks = n_looks.clone();
            link.check_by(ReloadReason::Refused, |_| async move {
                n_looks.fetch_add(1, Ordering::Relaxed);
                Ok(())
            });
        };
        look();
        settled(&link).await;
        assert_eq!(n_looks.load(Ordering::Relaxed), 0, "it was looked at a moment ago");
        tokio::time::advance(REJECTED_INTERVAL).await;
        look();
        settled(&link).await;
        assert_eq!(n_looks.load(Ordering::Relaxed), 1);
    }
}
