//! The evaluation of CEL expressions, which the caller provides.

use plimsoll_api::devices::Device;

use crate::DeviceId;

/// A device for which an expression is evaluated.
#[derive(Clone, Copy, Debug)]
pub struct DeviceRef<'a> {
    /// Its number.
    pub id: DeviceId,
    /// The state of the slice that has the device: another number after each change. With it and the number of the
    /// device, results can be remembered.
    pub stamp: u64,
    /// Its driver.
    pub driver: &'a str,
    /// Its pool.
    pub pool: &'a str,
    /// The device.
    pub device: &'a Device,
}

/// Why an expression gives no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectorError {
    /// It does not compile.
    #[error("CEL compile error: {0}")]
    Compile(String),
    /// It fails for this device.
    #[error("CEL runtime error: {0}")]
    Runtime(String),
}

/// Evaluates CEL expressions.
pub trait Selectors {
    /// Whether a device meets an expression.
    fn matches(&mut self, expression: &str, device: DeviceRef<'_>) -> Result<bool, SelectorError>;
}
