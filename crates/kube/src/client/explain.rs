//! Messages of failed requests: complete, but without secrets.

use std::error::Error;
use std::fmt::Write;
use std::io::ErrorKind;

use kube::client::AuthError;

use super::access::{AccessError, Loaded};

/// The maximum length of the error output of a program that is shown.
const COMPLAINT: usize = 300;

/// Credentials for a request that could not be obtained.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct CredentialError(pub String);

/// An error with its causes, outermost first: `client error (Connect): tcp connect error:
/// Connection refused (os error 111)`.
pub fn explain(error: &(dyn Error + 'static)) -> String {
    let mut text = String::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let part = match error.downcast_ref::<kube::Error>() {
            // Their messages only repeat their causes.
            Some(kube::Error::Service(_) | kube::Error::HyperError(_)) => String::new(),
            Some(kube::Error::Api(status)) => status.message.clone(),
            _ => error.to_string(),
        };
        if !part.is_empty() && !text.ends_with(&part) {
            let colon = if text.is_empty() { "" } else { ": " };
            let _ = write!(text, "{colon}{part}");
        }
        next = error.source();
    }
    if text.contains("invalid peer certificate") {
        text.push_str(
            " (the certificate-authority of the kubeconfig must have signed the API server's certificate, \
             which must hold its address or tls-server-name)",
        );
    }
    text
}

/// Whether nothing of a request was sent, so that it is safe to send it again.
pub fn was_never_sent(error: &kube::Error) -> bool {
    let kube::Error::Service(error) = error else { return false };
    let connecting = error.downcast_ref::<hyper_util::client::legacy::Error>();
    connecting.is_some_and(hyper_util::client::legacy::Error::is_connect)
        || error.is::<CredentialError>()
}

/// An error about the credentials of `loaded`.
pub(super) fn of_credentials(loaded: &Loaded, error: &AuthError) -> AccessError {
    let hint = loaded.install_hint.as_deref().unwrap_or("install it, or give its full path");
    let (field, remedy) = match error {
        AuthError::AuthExecStart(why) if why.kind() == ErrorKind::NotFound => {
            ("exec.command", hint)
        }
        AuthError::ExecPluginFailed
        | AuthError::AuthExecStart(_)
        | AuthError::AuthExecRun { .. }
        | AuthError::AuthExecParse(_)
        | AuthError::MalformedTokenExpirationDate(_) => {
            ("exec", "run it by hand to see what it says")
        }
        AuthError::InvalidBearerToken(_) => ("token", "give a token as one line"),
        _ => ("", "check the credentials of the user"),
    };
    loaded.user_error(field, without_secrets(error), remedy)
}

/// The message for an error of kube about credentials. Kube's own messages quote the output and the
/// arguments of programs.
pub(super) fn without_secrets(error: &AuthError) -> String {
    match error {
        AuthError::AuthExecStart(why) => format!("the program cannot be run: {why}"),
        AuthError::AuthExecRun { out, .. } => {
            let complaint = String::from_utf8_lossy(&out.stderr);
            let complaint: String = complaint.trim().chars().take(COMPLAINT).collect();
            format!("the program failed ({}): {complaint}", out.status)
        }
        AuthError::AuthExecParse(_) => "the program prints no ExecCredential".to_owned(),
        AuthError::ExecPluginFailed => {
            "the program prints an ExecCredential without status".to_owned()
        }
        AuthError::MalformedTokenExpirationDate(_) => {
            "the program prints an expirationTimestamp that is no time in RFC 3339".to_owned()
        }
        AuthError::InvalidBearerToken(_) => "this is no token".to_owned(),
        AuthError::InvalidBasicAuth(_) => "username and password cannot be sent".to_owned(),
        AuthError::UnrefreshableTokenResponse => "the program prints no token any more".to_owned(),
        AuthError::ReadTokenFile(why, path) => format!("{}: {why}", path.display()),
        AuthError::MissingCommand => "no program is named".to_owned(),
        AuthError::ExecMissingClusterInfo => {
            "the program wants the cluster, which is not known".to_owned()
        }
        _ => "credentials could not be had".to_owned(),
    }
}
