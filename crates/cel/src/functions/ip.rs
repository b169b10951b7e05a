//! Functions of IP addresses.

use std::net::IpAddr;

use super::netip::{self, Written};
use super::quantity::text;
use super::strings::go_quoted;
use super::{Arguments, Implementation};
use crate::error::Fault;
use crate::value::Value;

pub(super) fn implementation(name: &str) -> Option<Implementation> {
    Some(match name {
        "ip" => |call| match call.args {
            [Value::Cidr(cidr)] => Ok(Value::Ip(cidr.address)),
            args => parse(text(args)?).map(Value::Ip).map_err(Fault::text),
        },
        "isIP" => |call| Ok(Value::Bool(parse(text(call.args)?).is_ok())),
        "ip.isCanonical" => |call| {
            let text = text(call.args)?;
            let address = parse(text).map_err(Fault::text)?;
            Ok(Value::Bool(address.to_string() == text))
        },
        "family" => |call| match call.args {
            [Value::Ip(address)] => Ok(Value::Int(if address.is_ipv4() { 4 } else { 6 })),
            _ => Err(Fault::NoOverload),
        },
        "isUnspecified" => |call| is(call, IpAddr::is_unspecified),
        "isLoopback" => |call| is(call, IpAddr::is_loopback),
        "isLinkLocalMulticast" => |call| is(call, is_link_local_multicast),
        "isLinkLocalUnicast" => |call| is(call, is_link_local_unicast),
        "isGlobalUnicast" => |call| is(call, is_global_unicast),
        _ => return None,
    })
}

fn is(call: &mut Arguments<'_>, of: fn(&IpAddr) -> bool) -> Result<Value, Fault> {
    match call.args {
        [Value::Ip(address)] => Ok(Value::Bool(of(address))),
        _ => Err(Fault::NoOverload),
    }
}

/// Reads an address without a zone that is not an IPv4 address in the form of IPv6.
pub(super) fn parse(text: &str) -> Result<IpAddr, String> {
    let quoted = go_quoted(text);
    match netip::parse(text) {
        Ok(Written::Plain(address)) if is_mapped(&address) => {
            Err(format!("IPv4-mapped IPv6 address {quoted} is not allowed"))
        }
        Ok(Written::Plain(address)) => Ok(address),
        Ok(Written::WithZone) => Err(format!("IP address {quoted} with zone value is not allowed")),
        Err(why) => {
            Err(format!("IP Address {quoted} parse error during conversion from string: {why}"))
        }
    }
}

/// Whether it is an IPv4 address in the form of IPv6.
pub(super) fn is_mapped(address: &IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some())
}

fn is_link_local_multicast(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.octets()[..3] == [224, 0, 0],
        IpAddr::V6(address) => address.segments()[0] & 0xff0f == 0xff02,
    }
}

fn is_link_local_unicast(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

fn is_global_unicast(address: &IpAddr) -> bool {
    let broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    !(broadcast
        || address.is_unspecified()
        || address.is_loopback()
        || address.is_multicast()
        || is_link_local_unicast(address))
}
