//! The log of `plimsoll run`, on standard error: as klog writes it, or as JSON.

use std::fmt::{self, Write as _};
use std::io;

use jiff::Zoned;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;

/// Scores are logged from verbosity 10 on, as in kube-scheduler.
const SCORES_FROM: u32 = 10;

/// Changes the verbosity at run time.
pub(crate) type Verbosity = reload::Handle<Targets, tracing_subscriber::Registry>;

/// Starts logging. `verbosity` is that of `-v`.
pub(crate) fn begin(format: &str, verbosity: u32) -> Verbosity {
    let (filter, handle) = reload::Layer::new(filter(verbosity));
    let log = tracing_subscriber::registry().with(filter);
    // A program that contains this crate may have set up logging already.
    let _ = if format == "json" {
        let json = tracing_subscriber::fmt::layer().json().flatten_event(true);
        log.with(json.with_writer(io::stderr)).try_init()
    } else {
        let text = tracing_subscriber::fmt::layer().event_format(Klog);
        log.with(text.with_writer(io::stderr)).try_init()
    };
    handle
}

/// The log filter for a verbosity of klog: 4 is for debugging, and from 10 on every score of every node is logged.
pub(crate) fn filter(verbosity: u32) -> Targets {
    let level = match verbosity {
        0..=3 => LevelFilter::INFO,
        4..=5 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    let scores = if verbosity < SCORES_FROM { LevelFilter::OFF } else { LevelFilter::TRACE };
    Targets::new().with_default(level).with_target(plimsoll_kube::run::SCORES, scores)
}

/// `I1121 06:31:15.000000   12345 run] "message" key="value"`
struct Klog;

impl<S, N> FormatEvent<S, N> for Klog
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let meta = event.metadata();
        let letter = match *meta.level() {
            Level::ERROR => 'E',
            Level::WARN => 'W',
            Level::INFO | Level::DEBUG | Level::TRACE => 'I',
        };
        let mut fields = Fields::default();
        event.record(&mut fields);
        let now = Zoned::now().strftime("%m%d %H:%M:%S%.6f");
        let (process, target) = (std::process::id(), meta.target());
        let Fields { message, rest } = fields;
        writeln!(writer, "{letter}{now} {process:7} {target}] {message:?}{rest}")
    }
}

#[derive(Default)]
struct Fields {
    message: String,
    rest: String,
}

impl Fields {
    fn put(&mut self, field: &Field, value: fmt::Arguments<'_>) {
        if field.name() == "message" {
            self.message = value.to_string();
        } else {
            let name = field.name();
            write!(self.rest, " {name}={:?}", value.to_string()).expect("text can grow");
        }
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format_args!("{value:?}"));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.put(field, format_args!("{value}"));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("nobody panics with it").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn scores_are_logged_from_level_10_on() {
        let told = |verbosity, target| filter(verbosity).would_enable(target, &Level::TRACE);
        assert!(told(6, "plimsoll_kube") && told(10, "plimsoll_kube"));
        let scores = plimsoll_kube::run::SCORES;
        assert!(!told(9, scores) && told(10, scores) && told(11, scores));
        assert!(!filter(0).would_enable(scores, &Level::INFO));
    }

    #[test]
    fn lines_are_in_the_form_of_klog() {
        let kept = Kept::default();
        let writer = kept.clone();
        let layer =
            tracing_subscriber::fmt::layer().event_format(Klog).with_writer(move || writer.clone());
        let log = tracing_subscriber::registry().with(layer);
        tracing::subscriber::with_default(log, || {
            tracing::warn!(pod = "default/web-0", error = %"no \"room\"", "it failed");
        });
        let line = String::from_utf8(kept.0.lock().expect("nobody panics with it").clone());
        let line = line.expect("it is text");
        assert!(line.starts_with('W') && line.contains("] \"it failed\" pod="), "{line}");
        assert!(line.ends_with("pod=\"default/web-0\" error=\"no \\\"room\\\"\"\n"), "{line}");
    }
}
