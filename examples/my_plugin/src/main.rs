//! A scheduler with the plugin: all that `plimsoll` can, and `MyPlugin` in its configurations.

use std::process::ExitCode;

fn main() -> ExitCode {
    plimsoll::App::new().with_plugin(my_plugin::entry()).run()
}
