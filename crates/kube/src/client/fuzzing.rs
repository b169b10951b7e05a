//! For fuzz targets: kubeconfigs.

use std::path::Path;

use super::access::Access;
use super::kubeconfig;

/// Reads the kubeconfig at `path`. Sends no request, and runs no program.
pub fn kubeconfig(path: &Path) {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.expect("a runtime without drivers can be made");
    if let Err(error) = runtime.block_on(kubeconfig::read(path, &Access::default())) {
        assert!(!error.remedy.is_empty(), "an error without a remedy: {error}");
    }
}
