//! Quantities on the wire: strings or numbers.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Visitor};

use super::error::{Result, WireError};
use super::primitive::Table;
use crate::Str;
use crate::quantity::{Format, Quantity};
use crate::resources::ResourceList;

/// Quantities by the names of resources.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
pub(super) struct Amounts(Table<Amount>);

impl Amounts {
    /// The quantities in `field`. As in validation.go, ValidateNonnegativeQuantity: none may be
    /// negative.
    pub(super) fn take(&self, field: &str) -> Result<ResourceList> {
        let entries = self.0.0.iter().map(|(name, amount)| match amount.take() {
            Ok(quantity) => Ok((name.clone(), quantity)),
            Err(error) => Err(error.under(&format!("{field}[{name}]"))),
        });
        entries.collect()
    }
}

/// The text of a quantity; `null` is zero, as in Go.
#[derive(Debug)]
pub(super) struct Amount(Str);

impl Default for Amount {
    fn default() -> Self {
        Amount(Str::const_new("0"))
    }
}

impl Amount {
    /// The quantity; an error if it is negative.
    pub(super) fn take(&self) -> Result<Quantity> {
        let quantity =
            Quantity::parse(&self.0).map_err(|error| WireError::new("", error.to_string()))?;
        if quantity.is_negative() {
            let text = quantity.to_string();
            return Err(WireError::invalid("", text, "must be greater than or equal to 0"));
        }
        Ok(rounded_up(quantity))
    }
}

/// As in defaults.go, SetDefaults_ResourceList: quantities are rounded up to thousandths.
fn rounded_up(quantity: Quantity) -> Quantity {
    // Thousandths of larger quantities may overflow 64 bits, and finer fractions do not matter for them.
    const LARGE: i64 = 1 << 50;
    let in_milli = Quantity::from_milli(quantity.milli_value(), quantity.format());
    if quantity < Quantity::new(LARGE, Format::BinarySi) && in_milli != quantity {
        return in_milli;
    }
    quantity
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_any(AmountVisitor)
    }
}

struct AmountVisitor;

impl Visitor<'_> for AmountVisitor {
    type Value = Amount;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity, such as \"500m\" or 2")
    }

    fn visit_str<E>(self, text: &str) -> std::result::Result<Amount, E> {
        Ok(Amount(text.into()))
    }

    fn visit_i64<E>(self, number: i64) -> std::result::Result<Amount, E> {
        Ok(Amount(number.to_string().into()))
    }

    fn visit_u64<E>(self, number: u64) -> std::result::Result<Amount, E> {
        Ok(Amount(number.to_string().into()))
    }

    fn visit_f64<E>(self, number: f64) -> std::result::Result<Amount, E> {
        Ok(Amount(number.to_string().into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::testing::table;

    #[test]
    fn a_quantity_is_a_string_or_a_number_and_not_negative() {
        const NOT: &str = "quantities must match the regular expression \
                           '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";
        const SHAPE: &str =
            "a quantity is a number with an optional suffix, such as 500m, 2, 1.5Gi, 10k or 1e3";
        table(
            |amounts: Amounts| amounts.take("requests"),
            &[
                ("{}", ""),
                ("null", ""),
                (r#"{"memory":"1.5Gi","cpu":"500m"}"#, "cpu=500m memory=1536Mi"),
                (r#"{"cpu":2,"memory":1e3,"a":0.25}"#, "a=250m cpu=2 memory=1k"),
                (r#"{"cpu":null}"#, "cpu=0"),
                (r#"{"cpu":"1","cpu":"2"}"#, "cpu=2"),
                // Quantities are rounded up to thousandths.
                (r#"{"cpu":"100u","memory":"1n","a":"9E"}"#, "a=9E cpu=1m memory=1m"),
                (
                    r#"{"cpu":"-1"}"#,
                    r#"requests[cpu]: Invalid value: "-1": must be greater than or equal to 0"#,
                ),
                (
                    r#"{"nvidia.com/gpu":-2}"#,
                    r#"requests[nvidia.com/gpu]: Invalid value: "-2": must be greater than or equal to 0"#,
                ),
                (
                    r#"{"memory":"12 gigs"}"#,
                    &format!(r#"requests[memory]: {NOT}: got "12 gigs", {SHAPE}"#),
                ),
                (
                    r#"{"cpu":true}"#,
                    r#"cpu: invalid type: boolean `true`, expected a quantity, such as "500m" or 2"#,
                ),
            ],
            |list| {
                let entries = list.iter().map(|(name, quantity)| format!("{name}={quantity}"));
                entries.collect::<Vec<_>>().join(" ")
            },
        );
    }
}
