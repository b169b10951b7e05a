//! A scheduler with the plugin: all that `plimsoll` can, and `NetworkAttach` in its configurations.

use std::process::ExitCode;

fn main() -> ExitCode {
    plimsoll::App::new().with_plugin(network_attach::entry()).run()
}
