//! Reports what audits of decisions have found.

use std::ffi::OsStr;
use std::fmt::Write;

use anyhow::{Result, bail};
use plimsoll_engine::Audit;

use crate::notices;
use crate::wording::count;

/// Warns of every decision that came out differently from scratch. `circumstances` are the options under which it was
/// made.
pub(crate) fn tell(audit: &Audit, circumstances: &str) {
    warnings(audit, circumstances).for_each(notices::warning);
}

fn warnings(audit: &Audit, circumstances: &str) -> impl Iterator<Item = String> {
    let told = audit.differences.iter().map(move |difference| {
        format!("a decision differs from the one from scratch ({circumstances}): {difference}")
    });
    let more = audit.differing.saturating_sub(audit.differences.len() as u64);
    told.chain((0 < more).then(|| format!("and {more} more differ")))
}

/// An error if any decision differs, with the command that reproduces it.
pub(crate) fn check(audit: &Audit) -> Result<()> {
    verdict(audit, std::env::args_os())
}

fn verdict(audit: &Audit, words: impl Iterator<Item = impl AsRef<OsStr>>) -> Result<()> {
    let audited = usize::try_from(audit.audited).unwrap_or(usize::MAX);
    match audit.differing {
        0 => Ok(()),
        differing => bail!(
            "{differing} of {} came out differently from scratch: please report this, with the files and \
             this command of plimsoll {}: {}",
            count(audited, "audited decision"),
            env!("CARGO_PKG_VERSION"),
            command_line(words)
        ),
    }
}

/// The words of a command, quoted for a shell.
fn command_line(words: impl Iterator<Item = impl AsRef<OsStr>>) -> String {
    let mut line = "plimsoll".to_owned();
    for word in words.skip(1) {
        let word = word.as_ref().to_string_lossy();
        let is_plain = |letter: char| letter.is_alphanumeric() || "-_./:=,@%+".contains(letter);
        let quoted = match !word.is_empty() && word.chars().all(is_plain) {
            true => word.into_owned(),
            false => format!("'{}'", word.replace('\'', r"'\''")),
        };
        write!(line, " {quoted}").expect("a string takes all");
    }
    line
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use plimsoll_api::PodKey;
    use plimsoll_engine::AuditDifference;

    use super::*;

    /// An audit of ten decisions that has found `differing` differences and kept one.
    fn audit(differing: u64) -> Audit {
        let mut audit = Audit::default();
        audit.audited = 10;
        audit.differing = differing;
        audit.differences.push(AuditDifference {
            pod: PodKey::new("shop", "web-0"),
            remembered: "n1 of [n1 n2]".to_owned(),
            from_scratch: "n2 of [n2]".to_owned(),
        });
        audit
    }

    #[test]
    fn a_warning_has_both_outcomes_and_the_options() {
        let told: Vec<String> = warnings(&audit(3), "--seed 7 --audit 5").collect();
        expect![[r#"
            a decision differs from the one from scratch (--seed 7 --audit 5): pod shop/web-0: n1 of [n1 n2], and not n2 of [n2]
            and 2 more differ"#]]
        .assert_eq(&told.join("\n"));
        assert_eq!(warnings(&audit(1), "").count(), 1);
    }

    #[test]
    fn differences_are_an_error_with_the_command_that_reproduces_them() {
        let words = ["/bin/plimsoll", "simulate", "-f", "my file.yaml", "it's", "--seed=7", ""];
        let error = verdict(&audit(1), words.iter()).expect_err("something differs");
        expect![[r#"
            1 of 10 audited decisions came out differently from scratch: please report this, with the files and this command of plimsoll 0.1.0: plimsoll simulate -f 'my file.yaml' 'it'\''s' --seed=7 ''"#]]
        .assert_eq(&error.to_string().replace(env!("CARGO_PKG_VERSION"), "0.1.0"));
    }

    #[test]
    fn an_audit_that_finds_nothing_is_no_error() {
        assert!(verdict(&Audit::default(), ["plimsoll"].iter()).is_ok());
    }
}
