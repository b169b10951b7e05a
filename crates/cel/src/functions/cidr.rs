//! Functions of networks in CIDR notation.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::netip::{self, Written};
use super::quantity::text;
use super::strings::go_quoted;
use super::{Implementation, ip};
use crate::error::Fault;
use crate::value::Value;

/// An address and how many of its first bits name the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cidr {
    pub(crate) address: IpAddr,
    pub(crate) bits: u8,
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

impl Cidr {
    fn masked(self) -> Self {
        let address = match self.address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.bits)).unwrap_or(0);
                IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() & mask))
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.bits)).unwrap_or(0);
                IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
            }
        };
        Self { address, ..self }
    }

    fn contains(self, address: IpAddr) -> bool {
        address.is_ipv4() == self.address.is_ipv4()
            && Self { address, ..self }.masked() == self.masked()
    }
}

pub(super) fn implementation(name: &str) -> Option<Implementation> {
    Some(match name {
        "cidr" => |call| parse(text(call.args)?).map(Value::Cidr).map_err(|why| conversion(&why)),
        "isCIDR" => |call| Ok(Value::Bool(parse(text(call.args)?).is_ok())),
        "containsIP" => |call| {
            let (cidr, address) = match call.args {
                [Value::Cidr(cidr), Value::Ip(address)] => (cidr, *address),
                [Value::Cidr(cidr), Value::String(text)] => {
                    // As in cidr.go, cidrContainsIPString, which does not say what is wrong.
                    (cidr, ip::parse(text).map_err(|_| Fault::overload())?)
                }
                _ => return Err(Fault::NoOverload),
            };
            Ok(Value::Bool(cidr.contains(address)))
        },
        "containsCIDR" => |call| {
            let (cidr, other) = match call.args {
                [Value::Cidr(cidr), Value::Cidr(other)] => (cidr, *other),
                [Value::Cidr(cidr), Value::String(text)] => {
                    (cidr, parse(text).map_err(|why| conversion(&why))?)
                }
                _ => return Err(Fault::NoOverload),
            };
            Ok(Value::Bool(cidr.bits <= other.bits && cidr.contains(other.address)))
        },
        "prefixLength" => |call| match call.args {
            [Value::Cidr(cidr)] => Ok(Value::Int(cidr.bits.into())),
            _ => Err(Fault::NoOverload),
        },
        "masked" => |call| match call.args {
            [Value::Cidr(cidr)] => Ok(Value::Cidr(cidr.masked())),
            _ => Err(Fault::NoOverload),
        },
        _ => return None,
    })
}

fn conversion(why: &str) -> Fault {
    Fault::text(format!("network address parse error during conversion from string: {why}"))
}

fn parse(text: &str) -> Result<Cidr, String> {
    let wrong = |why: &str| {
        format!(
            "network address parse error during conversion from string: \
             netip.ParsePrefix({}): {why}",
            go_quoted(text)
        )
    };
    let (address, bits) = text.rsplit_once('/').ok_or_else(|| wrong("no '/'"))?;
    let address = match netip::parse(address).map_err(|why| wrong(&why))? {
        Written::Plain(address) => address,
        Written::WithZone => return Err(wrong("IPv6 zones cannot be present in a prefix")),
    };
    let most = if address.is_ipv4() { 32 } else { 128 };
    let padded = 1 < bits.len() && bits.starts_with('0');
    let digits = bits.bytes().all(|byte| byte.is_ascii_digit());
    let number = bits.parse::<i64>().ok().filter(|_| !padded && digits);
    let number =
        number.ok_or_else(|| wrong(&format!("bad bits after slash: {}", go_quoted(bits))))?;
    let bits = u8::try_from(number).ok().filter(|bits| *bits <= most);
    let bits = bits.ok_or_else(|| wrong("prefix length out of range"))?;
    if ip::is_mapped(&address) {
        return Err(format!("IPv4-mapped IPv6 address {} is not allowed", go_quoted(text)));
    }
    Ok(Cidr { address, bits })
}
