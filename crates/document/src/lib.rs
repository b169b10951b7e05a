//! YAML and JSON documents that know the line of each field.
//!
//! A file of manifests or a configuration is read with [`Document::parse_all`]. Each document holds its
//! content as a [`serde_json::Value`], and knows the line of each field, so that an error about a field
//! names the file, the line and the path of the field:
//!
//! ```
//! use plimsoll_document::{Document, FieldPath};
//!
//! let text = "parallelism: 16\nprofiles:\n- schedulerName: batch\n";
//! let documents = Document::parse_all("scheduler.yaml", text)?;
//! let name = FieldPath::from("profiles[0].schedulerName");
//! assert_eq!(documents[0].line_of(&name), Some(3));
//!
//! let error = documents[0].decode::<bool>(&name).expect_err("a name is no boolean");
//! assert_eq!(
//!     error.to_string(),
//!     "scheduler.yaml:3: profiles[0].schedulerName: \
//!      invalid type: string \"batch\", expected a boolean",
//! );
//! # Ok::<(), plimsoll_document::DocumentError>(())
//! ```
//!
//! The rules for scalars are those of YAML 1.1 as Kubernetes reads it: `yes` and `on` are booleans,
//! `010` is eight, `~` is null.

mod decode;
mod document;
mod error;
mod json;
mod path;
mod scalar;
mod yaml;

pub use document::Document;
pub use error::DocumentError;
pub use path::{FieldPath, Segment};
