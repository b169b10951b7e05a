//! A scheduler with the plugin: all that `plimsoll` can, and `Gang` in its configurations.

use std::process::ExitCode;

fn main() -> ExitCode {
    plimsoll::App::new().with_plugin(gang::entry()).run()
}
