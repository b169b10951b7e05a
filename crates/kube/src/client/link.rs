//! What all clients of one connection share: the address, the certificates and who we are. It follows
//! files and programs that give other credentials later on.

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

/// How often files with certificates are looked at. As in transport/cert_rotation.go,
/// CertCallbackRefreshDuration.
const LOOK_EVERY: Duration = Duration::from_mins(5);
/// How soon after the last time credentials may be made anew because the API server refused them.
const REFUSED_EVERY: Duration = Duration::from_secs(10);
/// How long a program may take to print credentials.
const EXEC_WITHIN: Duration = Duration::from_mins(1);
/// How long a token is used before its file is read again. As in transport/token_source.go.
const TOKEN_FOR: Duration = Duration::from_secs(50);

/// The shared part of a connection.
#[derive(Debug)]
pub(super) struct Link {
    access: Access,
    built: RwLock<Arc<Built>>,
    looked: Mutex<FileCheck>,
    is_looking: AtomicBool,
}

/// When files were looked at.
#[derive(Debug)]
struct FileCheck {
    at: Instant,
    /// When that was because the API server refused.
    refused: Option<Instant>,
}

/// A connection as it is made from certain files.
pub(super) struct Built {
    /// How many were made before.
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
            is_looking: AtomicBool::new(false),
        })
    }

    /// The connection as it is made now. Has files looked at where that is due.
    pub(super) fn current(self: &Arc<Self>) -> Arc<Built> {
        let built = self.built.read().unwrap_or_else(PoisonError::into_inner).clone();
        if built.loaded.print != 0 {
            self.look(ReloadReason::Due);
        }
        built
    }

    /// The API server did not know us by the credentials of `built`.
    pub(super) fn refused(self: &Arc<Self>, built: &Built) {
        let number = self.built.read().unwrap_or_else(PoisonError::into_inner).number;
        if built.number == number && built.loaded.print != 0 {
            self.look(ReloadReason::Refused);
        }
    }

    /// Looks at the files anew, unless that happened a short time ago. Nobody waits for it.
    fn look(self: &Arc<Self>, why: ReloadReason) {
        self.look_by(why, |link| async move { link.renew(why).await });
    }

    /// The same, where `renew` is what it takes to look at them.
    fn look_by<F>(self: &Arc<Self>, why: ReloadReason, renew: impl FnOnce(Arc<Self>) -> F)
    where
        F: Future<Output = Result<(), AccessError>> + Send + 'static,
    {
        {
            let now = Instant::now();
            let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
            let is_due = match why {
                ReloadReason::Due => LOOK_EVERY <= now - looked.at,
                ReloadReason::Refused => {
                    looked.refused.is_none_or(|last| REFUSED_EVERY <= now - last)
                }
            };
            if !is_due || self.is_looking.swap(true, Ordering::AcqRel) {
                return;
            }
            looked.at = now;
            if why == ReloadReason::Refused {
                looked.refused = Some(now);
            }
        }
        let (looking, renewed) = (Looking(self.clone()), renew(self.clone()));
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

/// Somebody looks at the files. However that ends, even by a panic in a library, they are looked at again later:
/// credentials that are never renewed end the instance without a word.
struct Looking(Arc<Link>);

impl Drop for Looking {
    fn drop(&mut self) {
        self.0.is_looking.store(false, Ordering::Release);
    }
}

/// Why credentials are looked at.
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
        // A program may be run, which blocks.
        let making = tokio::task::spawn_blocking(move || Built::make(loaded, number));
        match tokio::time::timeout(EXEC_WITHIN, making).await {
            Ok(Ok(built)) => built,
            Ok(Err(_)) => Err(failed("it gives credentials that cannot be sent".to_owned())),
            Err(_) => Err(failed(format!("no credentials came within {EXEC_WITHIN:?}"))),
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
        // The connector says itself which protocols it speaks.
        tls.alpn_protocols.clear();
        let token = loaded.token_file.clone().map(TokenFile::new).transpose();
        let token = token.map_err(|error| {
            loaded.user_error("tokenFile", error, "name a file that holds a token")
        })?;
        Ok(Built { number, base: config.base_uri_layer(), headers, auth, tls, token, loaded })
    }
}

/// A token in a file that somebody else renews.
pub(super) struct TokenFile {
    path: PathBuf,
    last: Mutex<(HeaderValue, Instant)>,
}

impl TokenFile {
    fn new(path: PathBuf) -> std::io::Result<Self> {
        let last = Mutex::new((TokenFile::read(&path)?, Instant::now()));
        Ok(TokenFile { path, last })
    }

    /// The value of the `Authorization` header. Where the file cannot be read any more, the last token
    /// that was in it.
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
            if !link.is_looking.load(Ordering::Acquire) {
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
        link.look_by(ReloadReason::Refused, |_| async { panic!("half a character, on purpose") });
        settled(&link).await;
        let n_looks = Arc::new(AtomicUsize::new(0));
        let look = || {
            let n_looks = n_looks.clone();
            link.look_by(ReloadReason::Refused, |_| async move {
                n_looks.fetch_add(1, Ordering::Relaxed);
                Ok(())
            });
        };
        look();
        settled(&link).await;
        assert_eq!(n_looks.load(Ordering::Relaxed), 0, "it was looked at a moment ago");
        tokio::time::advance(REFUSED_EVERY).await;
        look();
        settled(&link).await;
        assert_eq!(n_looks.load(Ordering::Relaxed), 1);
    }
}
