//! The process that binds, and its cost.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tempfile::{NamedTempFile, TempDir};
use tokio::process::Command;

use super::{Journal, Workload};

/// The cost of a process so far.
pub(super) struct Cost {
    pub(super) cpu: Duration,
    pub(super) peak_mib: f64,
}

/// A process that binds.
pub(super) struct Child {
    child: tokio::process::Child,
    _files: Option<Files>,
}

/// What `plimsoll run` reads and writes.
struct Files {
    _config: NamedTempFile,
    _journal: TempDir,
}

/// Builds Plimsoll and returns the path of the binary.
pub(super) fn build() -> Result<PathBuf> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let status = std::process::Command::new(cargo)
        .args(["build", "--release", "--locked", "--package", "plimsoll"])
        .status()
        .context("cannot start cargo")?;
    ensure!(status.success(), "cannot build plimsoll");
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    Ok(PathBuf::from(target).join("release/plimsoll"))
}

impl Child {
    /// `plimsoll run` for the pods of `scheduler_name`. It serves on `port`, where everybody may see the page, or not at all.
    pub(super) fn plimsoll(
        binary: &Path,
        (kubeconfig, port): (&Path, Option<u16>),
        (scheduler_name, workload, journal): (&str, Workload, Journal),
    ) -> Result<Self> {
        let config = tempfile::Builder::new().suffix(".yaml").tempfile()?;
        let kubeconfig = kubeconfig.display();
        let text = format!(
            "apiVersion: kubescheduler.config.k8s.io/v1\n\
             kind: KubeSchedulerConfiguration\n\
             leaderElection: {{leaderElect: false}}\n\
             clientConnection: {{kubeconfig: \"{kubeconfig}\", qps: 20000, burst: 20000}}\n\
             profiles: [{{schedulerName: {scheduler_name}}}]\n"
        );
        std::fs::write(config.path(), text)?;
        let folder = TempDir::new()?;
        let journal = match journal {
            Journal::Off => PathBuf::from("off"),
            Journal::On => folder.path().join("decisions.db"),
        };
        let mut command = Command::new(binary);
        command.arg("run").arg(format!("--secure-port={}", port.unwrap_or(0)));
        command.arg("--journal").arg(journal);
        if workload == Workload::Gangs {
            command.arg("--feature-gates=GenericWorkload=true");
        }
        if port.is_some() {
            command.arg("--bind-address=127.0.0.1");
            command.arg("--authorization-always-allow-paths=/healthz,/readyz,/livez,/api/v1/*");
        }
        let child = command
            .arg("--config")
            .arg(config.path())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot start {}", binary.display()))?;
        Ok(Child { child, _files: Some(Files { _config: config, _journal: folder }) })
    }

    /// Starts this program as the binder.
    pub(super) fn binder(kubeconfig: &Path, namespace: &str) -> Result<Self> {
        let own = std::env::current_exe().context("cannot find the file of this program")?;
        let child = Command::new(own)
            .arg("bind")
            .args([kubeconfig.as_os_str(), namespace.as_ref()])
            .kill_on_drop(true)
            .spawn()?;
        Ok(Child { child, _files: None })
    }

    /// Fails if the process has ended with an error.
    pub(super) fn check(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            Some(status) if !status.success() => {
                bail!("the process that binds has ended: {status}")
            }
            _ => Ok(()),
        }
    }

    /// The cost so far. As in proc(5).
    pub(super) fn cost(&self) -> Result<Cost> {
        let id = self.child.id().context("the process that binds has ended")?;
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat"))?;
        let (_, after_name) = stat.rsplit_once(')').context("/proc has another form")?;
        let fields: Vec<&str> = after_name.split_whitespace().collect();
        let ticks = |at: usize| -> Result<u64> {
            Ok(fields.get(at).context("/proc has another form")?.parse()?)
        };
        // utime and stime are the fields 14 and 15; the name is the second.
        let ticks = ticks(11)? + ticks(12)?;
        let cpu = Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second());
        let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = peak.and_then(|peak| peak.trim().strip_suffix(" kB")).unwrap_or("0");
        let peak_mib = kib.trim().parse::<f64>()? / 1024.0;
        Ok(Cost { cpu, peak_mib })
    }

    /// Ends it.
    pub(super) async fn stop(mut self) {
        // It may have ended already.
        let _ = self.child.kill().await;
    }
}
