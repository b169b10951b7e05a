//! A scheduler with the plugin: all that `plimsoll` can, and `TeamQuota` in its configurations.

use std::process::ExitCode;

fn main() -> ExitCode {
    plimsoll::App::new().with_plugin(team_quota::entry()).run()
}
