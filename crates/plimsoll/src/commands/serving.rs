//! What `plimsoll run` serves, according to its flags.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use plimsoll_config::{Configuration, GivenGates};
use plimsoll_kube::client::Access;
use plimsoll_kube::run::Serving;
use plimsoll_kube::serve::{
    Advisor, AuthnOptions, AuthzOptions, Build, Feature, Options, ProxyOptions, ServingOptions,
    VerbosityError,
};

use super::run::span;
use crate::args::{Authentication, Authorization, Serving as Flags, ShadowServing};
use crate::logs::{self, Verbosity};

/// The flags about serving: where to listen, and which API servers to ask about clients.
pub(super) struct Listening {
    options: Options,
    asked: Option<Access>,
    decided: Option<Access>,
}

/// Reads the flags about serving. The error lists everything that is wrong with them.
pub(super) fn listening(
    flags: Flags,
    authentication: Authentication,
    authorization: Authorization,
) -> Result<Listening> {
    let whom = |kubeconfig: Option<PathBuf>| {
        kubeconfig.map(|file| Access { kubeconfig: Some(file), ..Access::default() })
    };
    let asked = whom(authentication.authentication_kubeconfig.clone());
    let decided = whom(authorization.authorization_kubeconfig.clone());
    let options = Options {
        serving: options(flags),
        authentication: who_is_who(authentication)?,
        authorization: who_may(authorization)?,
    };
    let errors = options.validate();
    if !errors.is_empty() {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        bail!("{}", errors.join("; "));
    }
    Ok(Listening { options, asked, decided })
}

/// Where a shadow listens. It asks the API server that it follows about clients.
pub(super) fn listening_as_shadow(flags: &ShadowServing) -> Result<Listening> {
    let serving = ServingOptions {
        bind_address: flags.bind_address,
        port: flags.secure_port,
        cert_file: flags.tls_cert_file.clone(),
        key_file: flags.tls_private_key_file.clone(),
        cert_dir: flags.cert_dir.clone(),
        ..ServingOptions::default()
    };
    let options = Options { serving, ..Options::default() };
    let errors = options.validate();
    if !errors.is_empty() {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        bail!("{}", errors.join("; "));
    }
    Ok(Listening { options, asked: None, decided: None })
}

/// What to serve there.
pub(super) fn serving(
    listening: Listening,
    (configuration, gates, verbosity): (&Configuration, &GivenGates, Verbosity),
    default: &Configuration,
    (advisor, registries): (Arc<dyn Advisor>, Vec<prometheus::Registry>),
) -> Result<Serving> {
    let Listening { options, asked, decided } = listening;
    let features = gates.all().map(|gate| Feature {
        name: gate.name.to_owned(),
        stage: gate.stage.to_owned(),
        enabled: gate.enabled,
    });
    let effective = serde_json::to_string(&configuration.effective);
    let default = serde_json::to_string(&default.effective);
    Ok(Serving {
        options,
        listener: None,
        authentication: asked,
        authorization: decided,
        configuration: effective.context("cannot write the configuration as JSON")?.into(),
        default_configuration: default.context("cannot write the configuration as JSON")?.into(),
        build: build(gates),
        features: features.collect(),
        flags: super::flags::in_effect(configuration),
        profiling: configuration.effective.enable_profiling != Some(false),
        advisor,
        registries,
        set_verbosity: Arc::new(move |level| {
            let number = level.trim().parse();
            let number = number.map_err(|_| VerbosityError::NoNumber(level.to_owned()))?;
            let set = verbosity.reload(logs::filter(number));
            set.map_err(|error| VerbosityError::Log(error.to_string()))
        }),
    })
}

fn options(flags: Flags) -> ServingOptions {
    ServingOptions {
        bind_address: flags.bind_address,
        port: flags.secure_port,
        cert_file: flags.tls_cert_file,
        key_file: flags.tls_private_key_file,
        cert_dir: flags.cert_dir,
        sni: flags.tls_sni_cert_key,
        min_tls_version: flags.tls_min_version,
        cipher_suites: flags.tls_cipher_suites,
        curve_preferences: flags.tls_curve_preferences,
        max_streams: flags.http2_max_streams_per_connection,
        disable_http2: flags.disable_http2_serving,
        permit_port_sharing: flags.permit_port_sharing,
        permit_address_sharing: flags.permit_address_sharing,
    }
}

fn who_is_who(flags: Authentication) -> Result<AuthnOptions> {
    Ok(AuthnOptions {
        token_cache_ttl: span(
            "--authentication-token-webhook-cache-ttl",
            flags.authentication_token_webhook_cache_ttl,
        )?,
        client_ca_file: flags.client_ca_file,
        proxy: ProxyOptions {
            client_ca_file: flags.requestheader_client_ca_file,
            allowed_names: flags.requestheader_allowed_names,
            username_headers: flags.requestheader_username_headers,
            uid_headers: flags.requestheader_uid_headers,
            group_headers: flags.requestheader_group_headers,
            extra_prefixes: flags.requestheader_extra_headers_prefix,
        },
        skip_lookup: flags.authentication_skip_lookup,
        tolerate_lookup_failure: flags.authentication_tolerate_lookup_failure,
    })
}

fn who_may(flags: Authorization) -> Result<AuthzOptions> {
    Ok(AuthzOptions {
        allow_ttl: span(
            "--authorization-webhook-cache-authorized-ttl",
            flags.authorization_webhook_cache_authorized_ttl,
        )?,
        deny_ttl: span(
            "--authorization-webhook-cache-unauthorized-ttl",
            flags.authorization_webhook_cache_unauthorized_ttl,
        )?,
        always_allow_paths: flags.authorization_always_allow_paths,
        ..AuthzOptions::default()
    })
}

fn build(gates: &GivenGates) -> Build {
    let mut parts = env!("CARGO_PKG_VERSION").split('.').map(str::to_owned);
    let mut part = || parts.next().unwrap_or_default();
    Build {
        major: part(),
        minor: part(),
        git_version: concat!("v", env!("CARGO_PKG_VERSION")).to_owned(),
        emulation_version: gates.plugins.release().to_string(),
        compiler: "rustc".to_owned(),
        platform: format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
        ..Build::default()
    }
}
