//! A self-signed certificate, if none is given.

use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType, SerialNumber, date_time_ymd,
};

use super::keep::CertificateSource;
use super::material::Pair;

/// The name of the files, as in kube-scheduler.
const PAIR_NAME: &str = "kube-scheduler";
/// The name in the certificate.
const HOST: &str = "localhost";
/// How long it is valid. As in cert.go.
const GOOD_FOR: Duration = Duration::from_hours(24 * 365);

/// Why there is no self-signed certificate.
#[derive(Debug, thiserror::Error)]
pub(in crate::serve) enum SelfSignedError {
    #[error("unable to generate self signed cert: {0}")]
    Make(#[from] rcgen::Error),
    #[error("unable to keep the self signed cert in {path:?}, see --cert-dir: {error}")]
    Keep { path: PathBuf, error: io::Error },
    #[error(
        "error reading {missing:?}, certificate and key must be supplied as a pair: remove {other:?}, or \
         put the other file back"
    )]
    Half { missing: PathBuf, other: PathBuf },
}

/// The certificate in a directory, created if missing; without a directory one in memory. As in
/// options/serving.go, MaybeDefaultWithSelfSignedCerts.
pub(in crate::serve) fn own_certificate(
    dir: Option<&Path>,
    bind: IpAddr,
) -> Result<CertificateSource, SelfSignedError> {
    let Some(dir) = dir else { return Ok(CertificateSource::Made(make(bind, SystemTime::now())?)) };
    let file = |ending: &str| dir.join(format!("{PAIR_NAME}.{ending}"));
    let (cert, key) = (file("crt"), file("key"));
    let keep = |path: &Path, error| SelfSignedError::Keep { path: path.to_owned(), error };
    let is_there = |path: &Path| path.try_exists().map_err(|error| keep(path, error));
    match (is_there(&cert)?, is_there(&key)?) {
        (true, true) => return Ok(CertificateSource::Files(cert, key)),
        (true, false) => return Err(SelfSignedError::Half { missing: key, other: cert }),
        (false, true) => return Err(SelfSignedError::Half { missing: cert, other: key }),
        (false, false) => {}
    }
    let pair = make(bind, SystemTime::now())?;
    std::fs::create_dir_all(dir).map_err(|error| keep(dir, error))?;
    write(&key, &pair.key, 0o600).map_err(|error| keep(&key, error))?;
    write(&cert, &pair.cert, 0o644).map_err(|error| keep(&cert, error))?;
    Ok(CertificateSource::Files(cert, key))
}

fn write(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
    options.open(path)?.write_all(bytes)
}

/// A certificate for this host with the authority that signed it, and the key. As in cert.go,
/// GenerateSelfSignedCertKey, but with a curve instead of RSA.
fn make(bind: IpAddr, now: SystemTime) -> Result<Pair, rcgen::Error> {
    let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let mut authority = CertificateParams::default();
    dated(&mut authority, now);
    authority.serial_number = Some(SerialNumber::from(1_u64));
    authority.distinguished_name.push(DnType::CommonName, format!("{HOST}-ca@{seconds}"));
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![
        KeyUsagePurpose::KeyEncipherment,
        KeyUsagePurpose::DigitalSignature,
        KeyUsagePurpose::KeyCertSign,
    ];
    let authority_key = KeyPair::generate()?;
    let authority_cert = authority.self_signed(&authority_key)?;

    let mut params = CertificateParams::new(vec![HOST.to_owned()])?;
    dated(&mut params, now);
    params.serial_number = Some(SerialNumber::from(2_u64));
    params.distinguished_name.push(DnType::CommonName, format!("{HOST}@{seconds}"));
    let mut addresses = vec![IpAddr::V4(Ipv4Addr::LOCALHOST)];
    if !bind.is_unspecified() && !addresses.contains(&bind) {
        addresses.push(bind);
    }
    params.subject_alt_names.extend(addresses.into_iter().map(SanType::IpAddress));
    params.key_usages = vec![KeyUsagePurpose::KeyEncipherment, KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate()?;
    let cert = params.signed_by(&key, &Issuer::from_params(&authority, &authority_key))?;
    Ok(Pair {
        cert: format!("{}{}", cert.pem(), authority_cert.pem()).into_bytes(),
        key: key.serialize_pem().into_bytes(),
    })
}

/// Valid for a year, starting with the day of one hour ago, since clocks differ.
fn dated(params: &mut CertificateParams, now: SystemTime) {
    let day = |time: SystemTime| {
        let time = Timestamp::try_from(time).unwrap_or(Timestamp::UNIX_EPOCH);
        let date = time.to_zoned(TimeZone::UTC).date();
        let part = |number: i8| u8::try_from(number).unwrap_or(1);
        date_time_ymd(i32::from(date.year()), part(date.month()), part(date.day()))
    };
    params.not_before = day(now - Duration::from_hours(1));
    params.not_after = day(now + GOOD_FOR);
}

#[cfg(test)]
mod tests {
    use super::*;
    use x509_parser::prelude::{FromDer, X509Certificate};

    fn names(pair: &Pair) -> Vec<String> {
        let key =
            pair.load(&rustls::crypto::ring::default_provider()).expect("they belong together");
        let (_, cert) = X509Certificate::from_der(&key.cert[0]).expect("a certificate");
        assert!(cert.validity().is_valid());
        let names = cert.subject_alternative_name().expect("well-formed").expect("it has names");
        names.value.general_names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_certificate_in_memory_is_good_for_this_host() {
        let made = |bind| match own_certificate(None, bind) {
            Ok(CertificateSource::Made(pair)) => names(&pair),
            other => panic!("{other:?}"),
        };
        assert_eq!(made(IpAddr::V4(Ipv4Addr::UNSPECIFIED)).len(), 2);
        let names = made(IpAddr::from([10, 1, 2, 3])).join(" ");
        assert!(names.contains("localhost") && names.contains("0a:01:02:03"), "{names}");
    }

    #[test]
    fn a_certificate_in_a_directory_is_made_once_and_its_key_is_nobody_elses() {
        let dir = tempfile::tempdir().expect("there is room");
        let at = dir.path().join("certs");
        let bind = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let mut kept = Vec::new();
        for _ in 0..2 {
            let Ok(CertificateSource::Files(cert, key)) = own_certificate(Some(&at), bind) else {
                panic!("it is kept in files");
            };
            let read = |path| std::fs::read(path).expect("it is there");
            kept.push(Pair { cert: read(cert), key: read(key) });
        }
        assert!(kept[0] == kept[1]);
        assert_eq!(names(&kept[0]).len(), 2);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            let key = std::fs::metadata(at.join("kube-scheduler.key")).expect("it is there");
            assert_eq!(key.permissions().mode() & 0o777, 0o600);
        }
        std::fs::remove_file(at.join("kube-scheduler.key")).expect("it is there");
        let Err(error) = own_certificate(Some(&at), bind) else { panic!("half a pair is no good") };
        assert!(error.to_string().contains("must be supplied as a pair"), "{error}");
    }
}
