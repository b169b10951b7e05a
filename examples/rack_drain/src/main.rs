//! A scheduler with the plugin: all that `plimsoll` can, and `RackDrain` in its configurations.

use std::process::ExitCode;

fn main() -> ExitCode {
    plimsoll::App::new().with_plugin(rack_drain::entry()).run()
}
