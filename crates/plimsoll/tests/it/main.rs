//! Tests of the program as users see it: command lines and files go in; output, messages and the exit status come out.

mod answers;
mod api;
mod benchmarks;
#[cfg(target_os = "linux")]
mod bounded;
mod capacity;
mod capacity_of_groups;
mod claims;
mod command_line;
mod configurations;
mod decisions;
mod docs;
mod engines;
mod fickle;
mod journal;
#[cfg(unix)]
mod kubectl;
mod live;
mod manifests;
mod new_plugin;
mod objects;
mod old_scale;
mod on_a_cluster;
mod pages;
mod plugin_pages;
mod policies;
mod process;
mod recordings;
mod releases;
mod reloads;
mod run;
mod scale_of_10;
mod serve;
mod shadow;
mod shadow_report;
mod shadow_served;
mod snapshot;
mod what_if;
mod whole_groups;
mod why;
