//! A scheduler with the plugin: the program `plimsoll`, whose configurations can also name `TeamQuota`.

use std::process::ExitCode;

fn main() -> ExitCode {
    plimsoll::App::new().with_plugin(team_quota::entry()).run()
}
