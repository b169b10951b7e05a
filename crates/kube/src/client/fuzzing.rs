//! For fuzz targets: kubeconfigs.

use std::path::Path;

use super::kubeconfig;

/// The kubeconfig at `path`. No address in it is asked, and no program in it is run.
pub fn kubeconfig(path: &Path) {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.expect("a runtime without drivers can be made");
    if let Err(error) = runtime.block_on(kubeconfig::read(path)) {
        assert!(!error.remedy.is_empty(), "an error without a remedy: {error}");
    }
}
