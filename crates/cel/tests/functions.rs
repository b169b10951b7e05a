//! What expressions give for one device: each line is an expression, ` => `, and what comes of it:
//! `true`, `false`, the text of the error, or `compile: ` and the message of the compiler's first error.

use plimsoll_api::Quantity;
use plimsoll_cel::{AttributeValue, Attributes, Device, Expression};

/// A device with an attribute of each type. `A` stands for its attributes in the tables.
fn device() -> Device {
    let text = |text: &str| AttributeValue::String(text.to_owned());
    let list = AttributeValue::List(vec![AttributeValue::Int(1), AttributeValue::Int(2)]);
    let attributes = [
        ("model", text("A100")),
        ("index", AttributeValue::Int(3)),
        ("healthy", AttributeValue::Bool(true)),
        ("version", AttributeValue::Version("550.54.15".to_owned())),
        ("numbers", list),
        ("fabric.example.com/domain", text("d1")),
    ];
    let capacity = [
        ("memory", Quantity::parse("40Gi").expect("well formed")),
        ("cores", Quantity::parse("1500m").expect("well formed")),
    ];
    Device::new("gpu.example.com", false, attributes, capacity)
}

#[track_caller]
fn check(table: &str) {
    check_with(Attributes::Single, table);
}

#[track_caller]
fn check_with(attributes: Attributes, table: &str) {
    let device = device();
    for line in table.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (source, expected) = line.rsplit_once(" => ").expect("an expression and its result");
        let source = source.trim();
        let written = source
            .replace("A.", "device.attributes[\"gpu.example.com\"].")
            .replace("C.", "device.capacity[\"gpu.example.com\"].");
        let found = match Expression::compile_with(&written, attributes) {
            Ok(expression) => match expression.matches(&device) {
                Ok(matches) => matches.to_string(),
                Err(error) => error.to_string(),
            },
            Err(error) => {
                let error = error.to_string();
                let first = error.lines().next().unwrap_or_default();
                let message = first.split_once("<input>:").and_then(|(_, at)| at.split_once(": "));
                format!("compile: {}", message.map_or(first, |(_, message)| message))
            }
        };
        assert_eq!(found, expected.trim(), "{source}");
    }
}

#[test]
fn attributes_are_found_by_domain_and_name() {
    check(
        r#"
        device.driver == "gpu.example.com" => true
        device.allowMultipleAllocations => false
        A.model == "A100" => true
        device.attributes["gpu.example.com"]["model"] == "A100" => true
        device.attributes[device.driver].model == "A100" => true
        device.attributes["fabric.example.com"].domain == "d1" => true
        A.nothing == 1 => no such key: nothing
        device.attributes["no.such"].x == 1 => no such key: x
        has(A.model) => true
        has(A.nothing) => false
        has(device.attributes["no.such"].x) => false
        has(A.nothing.more) => no such key: nothing
        has(A.model.more) => false
        A.model.more == 1 => no such key: more
        "no.such" in device.attributes => false
        "gpu.example.com" in device.attributes => true
        size(device.attributes) == 2 => true
        size(device.attributes["no.such"]) == 0 => true
        device.attributes.all(d, d.endsWith(".example.com")) => true
        A.numbers[1] == 2 => true
        A.numbers[2] == 2 => index out of bounds: 2
        A.numbers["x"] == 2 => unsupported index type 'string' in list
        A.healthy => true
        A.model => CEL result of type string could not be converted to bool: unsupported native conversion from string to 'bool'
        A.index => CEL result of type int could not be converted to bool: unsupported type conversion from 'int' to bool
        A.version => CEL result of type kubernetes.Semver could not be converted to bool: type conversion error from 'Semver' to 'bool'
        true ? device.attributes["gpu.example.com"] : A.model => CEL result of type map could not be converted to bool: type conversion error from map to 'bool'
        true ? dyn(optional.of(true)) : A.model => true
        true ? dyn(optional.none()) : A.model => CEL result of type optional_type could not be converted to bool: optional.none() dereference
        true ? dyn(1.5) : A.model => CEL result of type double could not be converted to bool: type conversion error from Double to 'bool'
        true ? dyn(b"a") : A.model => CEL result of type bytes could not be converted to bool: type conversion error from Bytes to 'bool'
        true ? dyn(int) : A.model => CEL result of type type could not be converted to bool: type conversion not supported for 'type'
        device.foo == 1 => compile: undefined field 'foo'
        device.driver.x == 1 => compile: type 'string' does not support field selection
        device.driver => compile: must evaluate to bool or the unknown type, not string
        "#,
    );
}

#[test]
fn other_results_than_truth_values_do_not_compile() {
    let error = Expression::compile("dyn(true)").expect_err("dyn is not the type of attributes");
    assert_eq!(error.to_string(), "must evaluate to bool or the unknown type, not dyn");
    let error = Expression::compile("[device.attributes]").expect_err("a list");
    let of = "list(map(string, map(string, google.protobuf.Any)))";
    assert_eq!(error.to_string(), format!("must evaluate to bool or the unknown type, not {of}"));
}

#[test]
fn a_device_that_the_api_server_would_reject_fails_every_expression() {
    let expression = Expression::compile("true").expect("well formed");
    let device = |value| Device::new("d", false, [("x", value)], []);
    let error = |value| expression.matches(&device(value)).expect_err("no value").to_string();
    assert_eq!(error(AttributeValue::Unsupported), "attribute x: unsupported attribute value");
    assert_eq!(
        error(AttributeValue::Version("1.2".to_owned())),
        "attribute x: parse semantic version: No Major.Minor.Patch elements found"
    );
}

#[test]
fn logic_absorbs_errors_that_do_not_matter() {
    check(
        r#"
        A.nothing || true => true
        true || A.nothing => true
        A.nothing || false => no such key: nothing
        A.nothing && false => false
        A.nothing && true => no such key: nothing
        A.nothing && A.other => no such key: nothing
        A.model || false => no such overload
        A.model || true => true
        A.nothing ? true : false => no such key: nothing
        A.model ? true : false => no such overload
        A.healthy ? true : A.nothing => true
        !A.healthy => false
        !A.model => no such overload
        !A.version => no such overload
        !dyn([1]) => no such overload
        !A.nothing => no such key: nothing
        [1, 2].exists(x, A.nothing == x || x == 2) => true
        [1, 2].all(x, A.nothing == x && x == 2) => false
        [1, 2].exists(x, A.nothing == x) => no such key: nothing
        [1, 2].exists_one(x, A.nothing == x || x == 2) => no such key: nothing
        true && "x" => compile: expected type 'bool' but found 'string'
        1 || nothing && true => compile: expected type 'bool' but found 'int'
        "#,
    );
}

#[test]
fn numbers_are_equal_and_ordered_across_types() {
    check(
        r#"
        A.index == 3.0 => true
        A.index == 3u => true
        A.index < 3.5 => true
        A.index >= 2u => true
        dyn(3.5) > A.index => true
        dyn(9223372036854775807) < dyn(9223372036854775808.0) => true
        dyn(18446744073709551615u) > dyn(-1) => true
        dyn(-1) < dyn(-0.5) => true
        0.0 / 0.0 == 0.0 / 0.0 => false
        dyn(0.0 / 0.0) < dyn(1) => NaN values cannot be ordered
        1 == 1.0 => compile: found no matching overload for '_==_' applied to '(int, double)'
        1 < 1.5 => true
        {1: 2}[dyn(1.0)] == 2 => true
        1.0 in [1] => compile: found no matching overload for '@in' applied to '(double, list(int))'
        dyn(1.0) in [1] => true
        A.model == 3 => false
        A.model != 3 => true
        A.model < "B" => true
        A.model < 3 => no such overload
        A.version < 3 => no such overload: _<_
        A.version == 3 => no such overload
        3 == A.version => false
        A.version != "550.54.15" => true
        "550.54.15" != A.version => true
        C.memory != A.index => true
        optional.of(A.version) != optional.of(dyn(3)) => true
        A.version != semver("550.54.15") => false
        A.nothing != "550.54.15" => no such key: nothing
        A.version != A.nothing => no such key: nothing
        A.version in [] => false
        A.nothing in [] => false
        A.nothing in {} => no such key: nothing
        A.version in [semver("550.54.15")] => true
        null == null => true
        [1, 2] == [1, 2] => true
        {"a": 1} == {"a": 1} => true
        {"a": 1} == {"a": 2} => false
        "#,
    );
}

#[test]
fn arithmetic_does_not_overflow() {
    check(
        r#"
        A.index + 1 == 4 => true
        A.index - 5 == -2 => true
        A.index * 2 == 6 => true
        A.index / 2 == 1 => true
        A.index % 2 == 1 => true
        -A.index == -3 => true
        --A.index == 3 => true
        A.index / 0 == 1 => division by zero
        A.index % 0 == 1 => modulus by zero
        1.0 / 0.0 > 1.0 => true
        9223372036854775807 + A.index == 1 => integer overflow
        -9223372036854775808 - A.index == 1 => integer overflow
        -9223372036854775808 / -1 == 1 => integer overflow
        9223372036854775807 * A.index == 1 => integer overflow
        -(-9223372036854775808) == 1 => integer overflow
        0u - 1u == 0u => unsigned integer overflow
        18446744073709551615u + 1u == 0u => unsigned integer overflow
        9223372036854775808 == 1 => compile: invalid int literal
        A.index + "x" == "3x" => no such overload
        A.model + "x" == "A100x" => true
        A.healthy + 1 == 2 => no such overload: _+_
        -A.model == 1 => no such overload
        -A.version == 1 => no such overload: -_
        -A.healthy == false => no such overload
        b"a" + b"b" == b"ab" => true
        [1] + [2] == [1, 2] => true
        0x10 == 16 && 1e3 == 1000.0 && .5 == 0.5 => true
        "#,
    );
}

#[test]
fn texts_are_read_as_written() {
    check(
        r#"
        "\x41\u0042\U00000043\104" == "ABCD" => true
        r"\n" == "\\n" => true
        'it\'s' == "it's" => true
        """a"b""" == 'a"b' => true
        b"\xff".size() == 1 => true
        b"é".size() == 2 => true
        "é".size() == 1 => true
        "\q" == "q" => compile: Syntax error: invalid escape sequence
        "open => compile: Syntax error: token recognition error at: '"open'
        "a" == 'a' // a comment => true
        "#,
    );
}

#[test]
fn conversions_convert_or_say_why_not() {
    check(
        r#"
        int("12") == 12 && int("-5") == -5 && int(3.9) == 3 && int(5u) == 5 => true
        int(A.model) == 1 => type conversion error from 'string' to 'int'
        int("x") == 1 => compile: program instantiation failed: type conversion error from 'string' to 'int'
        int(A.version) == 1 => no such overload: int(kubernetes.Semver)
        int(1e30) == 1 => compile: program instantiation failed: integer overflow
        uint(A.index) == 3u => true
        uint(-A.index) == 3u => unsigned integer overflow
        uint("7") == 7u => true
        double(A.index) == 3.0 && double("1.5") == 1.5 => true
        string(A.index) == "3" && string(1.5) == "1.5" && string(true) == "true" => true
        string(1000000.0) == "1e+06" && string(123456.0) == "123456" && string(0.00001) == "1e-05" => true
        string(b"abc") == "abc" => true
        string(A.version) == "550.54.15" => no such overload: string(kubernetes.Semver)
        string(C.memory) == "40Gi" => compile: found no matching overload for 'string' applied to '(kubernetes.Quantity)'
        bool("true") && !bool("0") && bool("T") => true
        bytes(A.model) == b"A100" => true
        string(duration("90m")) == "5400s" && string(duration("1.5s")) == "1.5s" => true
        string(timestamp("2026-01-02T03:04:05.6Z")) == "2026-01-02T03:04:05.6Z" => true
        int(timestamp("1970-01-01T00:01:00Z")) == 60 => true
        timestamp(60) == timestamp("1970-01-01T00:01:00Z") => true
        type(A.index) == int && type(A.model) == string && type([1]) == list && type(1u) == uint => true
        type(A.version) == kubernetes.Semver => true
        type(type(1)) == type => true
        dyn(A.model) == "A100" => true
        duration(A.index) == duration("1s") => type conversion error from 'int' to 'google.protobuf.Duration'
        "#,
    );
}

#[test]
fn times_have_fields() {
    check(
        r#"
        duration("1h") > duration("59m") => true
        duration("1h").getMinutes() == 60 && duration("1500ms").getMilliseconds() == 1500 => true
        duration("-1.5h") + duration("2h") == duration("30m") => true
        duration("1h1m1s1ms1us1ns") == duration("3661001001001ns") => true
        duration("1y") > duration("1h") => compile: invalid duration argument
        duration(7) > duration("1h") => compile: invalid duration argument
        timestamp(9999999999999) > timestamp(0) => compile: invalid timestamp argument
        timestamp("x") > timestamp("2026-01-01T00:00:00Z") => compile: invalid timestamp argument
        timestamp("2026-02-30T00:00:00Z") > timestamp(0) => compile: invalid timestamp argument
        timestamp("2024-02-29T12:30:45.25Z").getFullYear() == 2024 => true
        timestamp("2024-02-29T12:30:45.25Z").getMonth() == 1 => true
        timestamp("2024-02-29T12:30:45.25Z").getDate() == 29 => true
        timestamp("2024-02-29T12:30:45.25Z").getDayOfMonth() == 28 => true
        timestamp("2024-02-29T12:30:45.25Z").getDayOfYear() == 59 => true
        timestamp("2024-02-29T12:30:45.25Z").getDayOfWeek() == 4 => true
        timestamp("2024-02-29T12:30:45.25Z").getHours() == 12 => true
        timestamp("2024-02-29T12:30:45.25Z").getMinutes() == 30 => true
        timestamp("2024-02-29T12:30:45.25Z").getSeconds() == 45 => true
        timestamp("2024-02-29T12:30:45.25Z").getMilliseconds() == 250 => true
        timestamp("2024-02-29T23:30:00Z").getDate("+01:00") == 1 => true
        timestamp("2024-02-29T23:30:00Z").getHours("-08:00") == 15 => true
        timestamp("2024-02-29T23:30:00+02:00").getHours() == 21 => true
        timestamp("0001-01-01T00:00:00Z").getFullYear() == 1 => true
        timestamp("9999-12-31T23:59:59Z") + duration("1s") > timestamp(0) => timestamp overflow
        timestamp("2026-01-01T00:00:00Z") - timestamp("2025-01-01T00:00:00Z") == duration("8760h") => true
        "#,
    );
}

#[test]
fn texts_have_functions() {
    check(
        r#"
        A.model.contains("10") && A.model.startsWith("A") && A.model.endsWith("00") => true
        A.index.contains("1") => no such overload
        A.model.size() == 4 && size(A.model) == 4 => true
        size(A.index) == 1 => no such overload: size
        A.model.charAt(0) == "A" && A.model.charAt(4) == "" => true
        A.model.charAt(5) == "" => index out of range: 5
        A.index.charAt(0) == "A" => no such overload: charAt(int, int)
        "tacocat".indexOf("ac") == 1 && "tacocat".indexOf("x") == -1 && "tacocat".indexOf("a", 3) == 5 => true
        "tacocat".indexOf("") == 0 && "tacocat".indexOf("a", -1) == 0 => index out of range: -1
        "tacocat".lastIndexOf("at") == 5 && "tacocat".lastIndexOf("a", 4) == 1 => true
        "ta©o©αT".indexOf("©") == 2 && "ta©o©αT".lastIndexOf("©") == 4 && "ta©o©αT".indexOf("α", 5) == 5 => true
        ["a", "b"].join() == "ab" && ["a", "b"].join("-") == "a-b" && [].join("-") == "" => true
        [1, 2].join("-") == "" => compile: found no matching overload for 'join' applied to 'list(int).(string)'
        "TacoCat".lowerAscii() == "tacocat" && "TacoCÆt".upperAscii() == "TACOCÆT" => true
        "hello hello".replace("he", "we") == "wello wello" && "hello hello".replace("he", "we", 1) == "wello hello" => true
        "hello".replace("", "_") == "_h_e_l_l_o_" && "hello".replace("l", "x", 0) == "hello" => true
        A.index.replace("a", "b") == "" => no such overload: replace(int, string, string)
        "a b c".split(" ") == ["a", "b", "c"] && "a b c".split(" ", 2) == ["a", "b c"] && "a b".split(" ", 0) == [] => true
        "abc".split("") == ["a", "b", "c"] => true
        "tacocat".substring(4) == "cat" && "tacocat".substring(0, 4) == "taco" && "ta©o".substring(2, 3) == "©" => true
        "tacocat".substring(5, 2) == "" => invalid substring range. start: 5, end: 2
        "tacocat".substring(9) == "" => index out of range: 9
        "  \ttrim\n ".trim() == "trim" => true
        A.index.trim() == "" => no such overload: trim(int)
        strings.quote("a\"b\n") == "\"a\\\"b\\n\"" => true
        "ab".reverse() == "ba" => compile: found no matching overload for 'reverse' applied to 'string.()'
        "#,
    );
}

#[test]
fn formats_write_values() {
    check(
        r#"
        "%s %d %.2f %%".format(["x", 3, 1.234]) == "x 3 1.23 %" => true
        "%.2f %.0f %f".format([1234567.891, -1000.5, "Infinity"]) == "1,234,567.89 -1,000 ∞" => true
        "%e %e".format([1234.5, -0.00012]) == "1.234500×10⁰³ -1.200000×10⁻⁰⁴" => true
        "%.20e|%e".format([1.25, "NaN"]) == "       1.250000×10⁰⁰|   NaN" => true
        "%b %o %x %X".format([5, 8, 255, 255]) == "101 10 ff FF" => true
        "%x".format(["abc"]) == "616263" => true
        "%s".format([[1, "a", {"k": true, "j": null}]]) == "[1, \"a\", {\"j\":null, \"k\":true}]" => true
        "%s".format([[1.5, 1.0/0.0, b"x", 2u, int]]) == "[1.500000, \"+Inf\", b\"x\", 2, int]" => true
        "%s".format([[duration("90s"), timestamp(0)]]) == "[duration(\"90s\"), timestamp(\"1970-01-01T00:00:00Z\")]" => true
        "%s".format([["é\u0301\u00ad\n"]]) == "[\"é\u0301\\u00ad\\n\"]" => true
        "%s %s".format([1e30, b"abc"]) == "1e+30 abc" => true
        "%s".format([b"\xff"]) == "" => error during formatting: could not convert argument "invalid UTF-8 in bytes, cannot convert to string" to string
        "%s".format([dyn(A.version)]) == "" => error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps, was given kubernetes.Semver
        "%s".format([dyn([A.version])]) == "" => error during formatting: no formatting function for kubernetes.Semver
        "%s".format([dyn({1.5: 1})]) == "" => error during formatting: no formatting function for map key of type double
        "%x".format([dyn(A.version)]) == "" => error during formatting: only integers, byte buffers, and strings can be formatted as hex, was given kubernetes.Semver
        "%f".format([dyn(1)]) == "" => error during formatting: fixed-point clause can only be used on doubles, was given int
        "%f".format(["x"]) == "" => error during formatting: fixed-point clause can only be used on doubles, was given string
        "%d".format([dyn(1.5)]) == "" => error during formatting: decimal clause can only be used on integers, was given double
        "%f".format([1]) == "" => compile: error during formatting: fixed-point clause can only be used on doubles, was given int
        "%d".format([1.5]) == "" => compile: error during formatting: decimal clause can only be used on integers, was given double
        "%d".format([optional.of(1)]) == "" => compile: error during formatting: decimal clause can only be used on integers, was given optional_type
        "%s".format([{"a": [semver("1.2.3")]}]) == "" => compile: error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps, was given kubernetes.Semver
        "%s".format([duration("90s")]) == "90s" && "%s".format([int]) == "int" => true
        "%d".format(["x"]) == "" => compile: error during formatting: decimal clause can only be used on integers, was given string
        "%s".format([A.model]) == "" => compile: error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps, was given google.protobuf.Any
        "%s".format([]) == "" => compile: index 0 out of range
        "%".format([1]) == "" => compile: unexpected end of string
        "%.".format([1]) == "" => compile: could not parse formatting clause: error while parsing precision: could not find end of precision specifier
        "%.d".format([1]) == "" => compile: could not parse formatting clause: error while parsing precision: error while converting precision to integer: strconv.Atoi: parsing "": invalid syntax
        "%é".format([1]) == "" => compile: could not parse formatting clause: unrecognized formatting clause "Ã"
        cel.bind(l, [1], "%d %d".format(l) == "") => index 1 out of range
        cel.bind(l, [1], "%".format(l) == "") => unexpected end of string
        cel.bind(l, [1, 2], "%d".format(l) == "1") => true
        A.model.format([1]) == "A100" => true
        "x".format([1]) == "" => compile: too many arguments supplied to string.format (expected 0, got 1)
        "%q".format([1]) == "" => compile: could not parse formatting clause: unrecognized formatting clause "q"
        A.model.format([]) == "A100" => true
        "#,
    );
}

#[test]
fn regular_expressions_are_those_of_re2() {
    check(
        r#"
        A.model.matches("^[AH]100$") && matches(A.model, "1.0") => true
        A.model.matches("[") => compile: invalid matches argument
        matches(A.model, "[") => compile: program instantiation failed: error parsing regexp: missing closing ]: `[`
        matches("+01:00", "[0-9]+") => compile: invalid matches argument
        A.index.matches("1") => no such overload
        A.index.matches(A.model) => no such overload: matches
        A.model.matches(A.model + "[") => error parsing regexp: missing closing ]: `[`
        "a{b".matches("a{b") && "x".matches("[[]|x") && "a]".matches("^a[]]$") => true
        "٣".matches("\\d") || "é".matches("^\\w$") => false
        "a.b".matches("^\\Qa.b\\E$") && "a-b".matches("[a\\-]+") => true
        "aaaa".matches("^a{2,1001}$") => compile: invalid matches argument
        A.model.find("[0-9]+") == "100" && A.model.find("x") == "" => true
        A.model.findAll("[0-9]").size() == 3 && A.model.findAll("[0-9]", 2) == ["1", "0"] => true
        A.model.findAll("[0-9]", 0).size() == 0 => true
        A.index.find("x") == "" => no such overload
        A.index.find(A.model) == "" => no such overload: find(int, string)
        A.model.find("[") == "" => compile: program instantiation failed: error parsing regexp: missing closing ]: `[`
        A.model.find(A.model + "(") == "" => Illegal regex: error parsing regexp: missing closing ): `A100(`
        "#,
    );
}

#[test]
fn lists_have_functions() {
    check(
        r#"
        [1, 2, 3].sum() == 6 && [1.5, 1.0].sum() == 2.5 && [duration("1s"), duration("2s")].sum() == duration("3s") => true
        [A.index, A.index].sum() == 6 => true
        [A.model].sum() == 6 => no such overload: sum(list)
        [3, 1, 2].min() == 1 && [3, 1, 2].max() == 3 && ["b", "a"].min() == "a" => true
        [1, 2, 2].isSorted() && ![2, 1].isSorted() && [].isSorted() => true
        [1, 2, 1].indexOf(1) == 0 && [1, 2, 1].lastIndexOf(1) == 2 && [1].indexOf(3) == -1 => true
        A.numbers.includes(2) && A.model.includes("A100") && !A.model.includes("A") => true
        [1, 2, 3, 4].slice(1, 3) == [2, 3] => true
        [1, 2].slice(1, 3) == [] => cannot slice(1, 3), list is length 2
        [1, 2].slice(-1, 1) == [] => cannot slice(-1, 1), negative indexes not supported
        [1, 2].slice(2, 1) == [] => cannot slice(2, 1), start index must be less than or equal to end index
        [[1], [2, 3]].flatten() == [1, 2, 3] && [[[1]], [[2]]].flatten().size() == 2 => true
        [dyn(1), dyn([dyn(2), dyn([3])])].flatten(2) == [1, 2, 3] => true
        [dyn(1)].flatten(-1) == [] => level must be non-negative
        [3, 1, 2].sort() == [1, 2, 3] && ["b", "a"].sort() == ["a", "b"] => true
        [3, 1, 2].sortBy(x, -x) == [3, 2, 1] => true
        [dyn(3), dyn("x")].sort() == [] => list elements must have the same type
        A.model.sort() == [] => no such overload
        A.index.sort() == [] => no such overload: sort
        A.version.sort() == [] => no such overload: sort
        [[1]].sort() == [] => compile: found no matching overload for 'sort' applied to 'list(list(int)).()'
        [1, 1, 2].distinct() == [1, 2] && [1, 2].reverse() == [2, 1] && lists.range(3) == [0, 1, 2] => true
        [1, 2].first().value() == 1 && [1, 2].last().value() == 2 && ![].first().hasValue() => true
        sets.contains([1, 2, 3], [2]) && !sets.contains([1], [2]) && sets.contains([], []) => true
        sets.equivalent([1, 1, 2], [2, 1]) && sets.intersects([1, 2], [2, 3]) && !sets.intersects([1], []) => true
        [1, 'a'].size() == 2 => compile: expected type 'int' but found 'string'
        {"a": 1, "b": "x"}.size() == 2 => compile: expected type 'int' but found 'string'
        [1, 2][5] == 1 => index out of bounds: 5
        {"a": 1}.b == 1 => no such key: b
        dyn("a").flatten() == [] => no such overload: string.flatten()
        dyn("a").flatten(1) == [] => no such overload: string.flatten(int)
        dyn({"a": 1}).sortBy(x, x) == [] => no such overload: @sortByAssociatedKeys
        "#,
    );
}

#[test]
fn maps_have_any_keys() {
    check(
        r#"
        {"a": 1, "a": 2}.a == 2 && {"a": 1, "a": 2}.size() == 1 => true
        {A.index: 1, A.index: 2}[A.index] == 2 => true
        {"a": 1, ?"a": optional.none()}.size() == 0 && {?"a": optional.none(), "a": 1}.size() == 1 => true
        {dyn(1): "a", dyn(1u): "b"}.size() == 2 && {dyn(1): "a", dyn(1u): "b"}[1u] == "b" => true
        {dyn(1): "a", dyn(1.0): "b"}[1.0] == "b" => true
        {dyn(1): "a"}[1u] == "a" && {dyn(1u): "a"}[1.0] == "a" => true
        {dyn(1.0): "a"}[1] == "a" => no such key: 1
        {dyn(1.0): "a"} == {dyn(1): "a"} => true
        {dyn(1): "a"} == {dyn(1.0): "a"} => false
        {dyn(1): "a", dyn(1u): "b"} == {dyn(1u): "b", dyn(1): "a"} => true
        {0.0/0.0: 1, 0.0/0.0: 2}.size() == 2 && {dyn(0.0): 1, dyn(-0.0): 2}.size() == 1 => true
        {null: 1}.size() == 1 && {int: 1, int: 2}.size() == 1 && duration("1s") in {duration("1s"): 1} => true
        {ip("1.2.3.4"): 1, ip("1.2.3.4"): 2}.size() == 1 && ip("1.2.3.4") in {ip("1.2.3.4"): 1} => true
        {[1]: 1, [1]: 2}.size() == 2 && {quantity("1"): 1, quantity("1"): 2}.size() == 2 => true
        cel.bind(x, [1], {x: 1, x: 2}.size() == 1 && x in {x: 1}) => true
        {A.version: 1}.size() == 1 || true => internal error: runtime error: hash of unhashable type cel.Semver
        {b"a": A.index}.size() == 1 || true => internal error: runtime error: hash of unhashable type types.Bytes
        A.version in dyn({"a": 1}) => internal error: runtime error: hash of unhashable type cel.Semver
        A.version in {} || A.version in device.attributes["gpu.example.com"] => false
        A.version in ["a"] || true => internal error: runtime error: hash of unhashable type cel.Semver
        dyn(b"a") in ["a"] => internal error: runtime error: hash of unhashable type types.Bytes
        A.version in [A.model] => false
        [1, 1].transformMapEntry(i, v, {v: i}) == {} => insert failed: key 1 already exists
        ["a", "a"].transformMapEntry(i, v, {v: i}) == {} => insert failed: key a already exists
        [dyn(1), dyn(1u)].transformMapEntry(i, v, {v: i}) == {} => insert failed: key 1 already exists
        "#,
    );
}

#[test]
fn keys_and_indexes_are_of_some_types_only() {
    check(
        r#"
        [1][A.version] == 1 => invalid qualifier type: cel.Semver
        {dyn("a"): 1}[C.memory] == 1 => invalid qualifier type: cel.Quantity
        {dyn("a"): 1}[dyn([1] + [1])] == 1 => invalid qualifier type: *types.concatList
        {dyn("a"): 1}[A.numbers] == 1 => invalid qualifier type: *types.baseList
        {dyn("a"): 1}[device.attributes["gpu.example.com"]] == 1 => invalid qualifier type: *types.baseMap
        {dyn("a"): 1}[?optional.of(1)].hasValue() => invalid qualifier type: *types.Optional
        {dyn("a"): 1}[device.attributes] == 1 => invalid qualifier type: cel.mapper
        {dyn("a"): 1}[device] == 1 => invalid qualifier type: map[string]interface {}
        has({dyn("a"): {"b": 1}}[A.version].b) => invalid qualifier type: cel.Semver
        A.nothing[A.version] == 1 => no such key: nothing
        optional.none()[A.version].hasValue() => false
        {dyn("a"): 1}[b"a"] == 1 => compile: program instantiation failed: invalid qualifier type: types.Bytes
        [1][dyn(timestamp(0))] == 1 => compile: program instantiation failed: invalid qualifier type: types.Timestamp
        [1][dyn(null)] == 1 => compile: program instantiation failed: invalid qualifier type: types.Null
        {dyn("a"): 1}[int] == 1 => compile: program instantiation failed: invalid qualifier type: *types.Type
        {dyn("a"): 1}[[1]] == 1 => compile: program instantiation failed: invalid qualifier type: *types.baseList
        "#,
    );
}

#[test]
fn lists_of_versions_compare_by_how_they_were_made() {
    check(
        r#"
        [A.version] == ["a"] => true
        [A.version] + ["a"] == ["a", "a"] => no such overload
        [A.version] + ["b"] == ["a", "a"] => false
        [A.version] + [] == ["a"] => true
        [A.version] + ["a"] != ["a", "a"] => true
        ["a", "a"] == [A.version] + ["a"] => false
        ([A.version] + ["a"]).map(x, x) == ["a", "a"] => true
        cel.bind(x, [A.version] + ["a"], x == ["a", "a"]) => no such overload
        "#,
    );
}

#[test]
fn what_cannot_be_counted_ends_the_evaluation() {
    check(
        r#"
        [A.nothing].distinct() == [] || true => internal error: interface conversion: *types.Err is not traits.Lister: missing method Add
        A.model.distinct() == [] || true => internal error: interface conversion: types.String is not traits.Lister: missing method Contains
        A.version.distinct() == [] || true => internal error: interface conversion: cel.Semver is not traits.Lister: missing method Add
        [A.nothing == 1].sort() == [] || true => internal error: interface conversion: *types.Err is not traits.Lister: missing method Add
        [A.nothing].sort() == [] || true => true
        [1].sortBy(x, A.nothing == x) == [] || true => internal error: interface conversion: *types.Err is not traits.Lister: missing method Add
        [1].sortBy(x, A.nothing) == [] || true => true
        dyn("a").sortBy(x, 1) == [] => internal error: interface conversion: *types.Err is not traits.Lister: missing method Add
        [1].flatten(A.nothing) == [] || true => internal error: interface conversion: ref.Val is *types.Err, not types.Int
        A.nothing + {A.version: 1}.size() == 1 || true => internal error: runtime error: hash of unhashable type cel.Semver
        A.nothing.charAt({A.version: 1}.size()) == "" || true => internal error: runtime error: hash of unhashable type cel.Semver
        A.nothing.replace("a", string({A.version: 1}.size())) == "" || true => true
        A.nothing.format([{A.version: 1}.size()]) == "" || true => true
        [1].flatten(dyn("a")) == [] || true => internal error: interface conversion: ref.Val is types.String, not types.Int
        "#,
    );
}

#[test]
fn macros_bind_variables() {
    check(
        r#"
        [1, 2].all(x, x > 0) && [1, 2].exists(x, x == 2) && [1, 2].exists_one(x, x > 1) => true
        [].all(x, false) && ![].exists(x, true) => true
        [1, 2].map(x, x * 2) == [2, 4] && [1, 2].map(x, x > 1, x * 2) == [4] => true
        [1, 2, 3].filter(x, x > 1) == [2, 3] => true
        [1, 2].all(i, v, v == i + 1) && ["a", "b"].exists(i, v, i == 1 && v == "b") => true
        {"a": 1}.exists(k, v, k == "a" && v == 1) && {"a": 1}.all(k, k == "a") => true
        {"a": 1, "b": 2}.existsOne(k, v, v == 2) => true
        ["a", "b"].transformList(i, v, i) == [0, 1] && ["a", "b"].transformList(i, v, i > 0, v) == ["b"] => true
        ["a", "b"].transformMap(i, v, v + "!") == {0: "a!", 1: "b!"} => true
        {"a": 1}.transformMap(k, v, v > 1, v) == {} => true
        {"a": 1}.transformMapEntry(k, v, {v: k}) == {1: "a"} => true
        device.attributes["gpu.example.com"].exists(k, k == "model") => true
        cel.bind(x, A.index, x + x) == 6 => true
        cel.bind(x, 1, cel.bind(y, 2, x + y)) == 3 => true
        cel.bind(x, A.nothing, true) => true
        cel.bind(x, A.nothing, x == 1) => no such key: nothing
        cel.bind(x, 1, [5].map(x, x + 1)[0] + x) == 7 => true
        dyn("abc").all(i, c, true) => unsupported comprehension range type: types.String
        dyn(A.version).transformList(i, v, v) == [] => unsupported comprehension range type: cel.Semver
        dyn(optional.of(1)).exists(i, v, true) => unsupported comprehension range type: *types.Optional
        "abc".all(c, true) => compile: expression of type 'string' cannot be range of a comprehension (must be list, map, or dynamic)
        [1].exists(x, y == 1) => compile: undeclared reference to 'y' (in container '')
        [1].exists(x.y, true) => compile: argument must be a simple name
        [1].all(x, x) => compile: expected type 'bool' but found 'int'
        [1].exists(x, [x]) => compile: expected type 'bool' but found 'list(int)'
        [1].map(x, 1, x) == [] => compile: found no matching overload for '_?_:_' applied to '(int, list(int), list(int))'
        {"a": 1}.transformMap(k, v, 1, v) == {} => compile: found no matching overload for '_?_:_' applied to '(int, map(string, int), map(string, int))'
        has(device) => compile: invalid argument to has() macro
        "#,
    );
}

#[test]
fn attributes_are_iterated_over_only_if_they_may_be_lists() {
    check(
        r#"
        A.numbers.exists(x, x == 2) => compile: expression of type 'any' cannot be range of a comprehension (must be list, map, or dynamic)
        cel.bind(n, A.numbers, n.all(x, x > 0)) => compile: expression of type 'any' cannot be range of a comprehension (must be list, map, or dynamic)
        dyn(A.numbers).exists(x, x == 2) => true
        A.numbers[0] => compile: must evaluate to bool or the unknown type, not dyn
        [1].contains(A.model) => compile: found no matching overload for 'contains' applied to 'list(int).(any)'
        "#,
    );
    check_with(
        Attributes::Lists,
        r#"
        A.numbers.exists(x, x == 2) => true
        A.numbers.filter(x, x > 5).min() == 1 => min called on empty list
        A.model.all(c, true) => got 'types.String', expected iterable type
        A.numbers[0] == 1 => true
        A.numbers[0] => CEL result of type int could not be converted to bool: unsupported type conversion from 'int' to bool
        dyn(true) => true
        [1].contains(A.model) => compile: found no matching overload for 'contains' applied to 'list(int).(dyn)'
        [device.attributes] => compile: must evaluate to bool or the unknown type, not list(map(string, map(string, dyn)))
        "%s".format([A.numbers]) == "[1, 2]" => true
        "#,
    );
}

#[test]
fn optional_values_chain() {
    check(
        r#"
        A.?model.hasValue() && !A.?nothing.hasValue() => true
        A.?nothing.orValue("x") == "x" && A.?model.orValue("x") == "A100" => true
        A.?nothing.more.orValue("x") == "x" => true
        A.index.orValue(1) == 3 => true
        A.index.or(optional.of(1)) == dyn(3) => true
        A.nothing.orValue(1) == 1 => no such key: nothing
        device.attributes["gpu.example.com"][?"model"].orValue("x") == "A100" => true
        A.?nothing.or(A.?model).value() == "A100" => true
        A.?nothing.value() == "A100" => optional.none() dereference
        A.?index.optMap(x, x + 1).orValue(0) == 4 && !A.?nothing.optMap(x, x + 1).hasValue() => true
        A.?index.optFlatMap(x, optional.of(x)).value() == 3 => true
        optional.of(1).value() == 1 && !optional.none().hasValue() => true
        optional.ofNonZeroValue(0).hasValue() || optional.ofNonZeroValue("").hasValue() => false
        optional.ofNonZeroValue(optional.none()).hasValue() && optional.ofNonZeroValue(timestamp(0)).hasValue() => true
        optional.ofNonZeroValue(timestamp("0001-01-01T00:00:00Z")).hasValue() => false
        [1, ?optional.of(2), ?optional.none()] == [1, 2] && {?"a": optional.none()} == {} => true
        [1, 2][?5].hasValue() => false
        optional.of(1) == optional.of(1) && optional.of(1) != optional.none() => true
        has(device.attributes.?x.y) => false
        C.?cores.optMap(q, q.isInteger()).orValue(true) => false
        "#,
    );
}

#[test]
fn quantities_have_functions() {
    check(
        r#"
        C.memory == quantity("40Gi") && C.memory.compareTo(quantity("40Gi")) == 0 => true
        C.memory.isGreaterThan(quantity("39Gi")) && C.memory.isLessThan(quantity("41Gi")) => true
        C.memory.asInteger() == 42949672960 && C.memory.isInteger() => true
        C.cores.isInteger() => false
        C.cores.asInteger() == 1 => cannot convert value to integer
        C.cores.asApproximateFloat() == 1.5 => true
        C.memory.add(quantity("1Gi")) == quantity("41Gi") && C.memory.sub(1).isLessThan(C.memory) => true
        quantity("41Gi") == C.memory.add(quantity("1Gi")) => no such overload
        sign(C.memory) == 1 && sign(C.memory.sub(quantity("50Gi"))) == -1 && sign(quantity("0")) == 0 => true
        isQuantity("1.5Gi") && !isQuantity("10Gib") => true
        quantity("abc") == quantity("1") => quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'
        C.memory > quantity("1Gi") => compile: found no matching overload for '_>_' applied to '(kubernetes.Quantity, kubernetes.Quantity)'
        C.memory.sign() == 1 => compile: found no matching overload for 'sign' applied to 'kubernetes.Quantity.()'
        A.index.isGreaterThan(quantity("1")) => no such overload: isGreaterThan(int, kubernetes.Quantity)
        "#,
    );
}

#[test]
fn versions_have_functions() {
    check(
        r#"
        A.version == semver("550.54.15") && A.version.compareTo(semver("550.54.15+x")) == 0 => true
        A.version.isGreaterThan(semver("550.54.15-beta.2")) && A.version.isLessThan(semver("550.100.0")) => true
        A.version.major() == 550 && A.version.minor() == 54 && A.version.patch() == 15 => true
        semver("v1.2", true) == semver("1.2.0") && semver("01.02.03", true) == semver("1.2.3") => true
        isSemver("1.2.3") && !isSemver("1.2") && isSemver("v1.2", true) && !isSemver("v1.2", false) => true
        semver("1.2") == semver("1.2.0") => No Major.Minor.Patch elements found
        semver("1.x.0") == semver("1.2.0") => Invalid character(s) found in minor number "x"
        semver("1.02.0") == semver("1.2.0") => Minor number must not contain leading zeroes "02"
        semver("1.2-x", true) == semver("1.2.0") => short version cannot contain PreRelease/Build meta data
        semver("1.0.0-alpha.1").isLessThan(semver("1.0.0-alpha.beta")) => true
        A.model.isGreaterThan(semver("1.0.0")) => no such overload: isGreaterThan(string, kubernetes.Semver)
        A.model.major() == 1 => no such overload: major(string)
        "#,
    );
}

#[test]
fn addresses_have_functions() {
    check(
        r#"
        isIP("10.0.0.1") && isIP("::1") && !isIP("010.0.0.1") && !isIP("::ffff:1.2.3.4") && !isIP("fe80::1%eth0") => true
        ip("10.0.0.1").family() == 4 && ip("::1").family() == 6 => true
        ip("x") == ip("y") => IP Address "x" parse error during conversion from string: ParseAddr("x"): unable to parse IP
        ip("%eth0") == ip("y") => IP Address "%eth0" parse error during conversion from string: ParseAddr("%eth0"): missing IPv6 address
        ip("::1%") == ip("y") => IP Address "::1%" parse error during conversion from string: ParseAddr("::1%"): zone must be a non-empty string
        ip("::1%eth0") == ip("y") => IP address "::1%eth0" with zone value is not allowed
        ip("::ffff:1.2.3.4") == ip("y") => IPv4-mapped IPv6 address "::ffff:1.2.3.4" is not allowed
        cidr("1.2.3/8") == cidr("y") => network address parse error during conversion from string: network address parse error during conversion from string: netip.ParsePrefix("1.2.3/8"): ParseAddr("1.2.3"): IPv4 address too short
        cidr("::1%e/8") == cidr("y") => network address parse error during conversion from string: network address parse error during conversion from string: netip.ParsePrefix("::1%e/8"): IPv6 zones cannot be present in a prefix
        cidr("1.2.3.4/08") == cidr("y") => network address parse error during conversion from string: network address parse error during conversion from string: netip.ParsePrefix("1.2.3.4/08"): bad bits after slash: "08"
        cidr("1.2.3.4/33") == cidr("y") => network address parse error during conversion from string: network address parse error during conversion from string: netip.ParsePrefix("1.2.3.4/33"): prefix length out of range
        cidr("10.0.0.0/8").containsIP("1.2.3") => no such overload
        ip.isCanonical("2001:db8::abcd") && !ip.isCanonical("2001:DB8::ABCD") => true
        ip("0.0.0.0").isUnspecified() && ip("127.0.0.1").isLoopback() && ip("ff02::1").isLinkLocalMulticast() => true
        ip("169.254.1.1").isLinkLocalUnicast() && ip("192.168.0.1").isGlobalUnicast() && !ip("255.255.255.255").isGlobalUnicast() => true
        string(ip("::0:1")) == "::1" => true
        cidr("10.0.0.0/8").containsIP("10.1.2.3") && !cidr("10.0.0.0/8").containsIP(ip("11.1.2.3")) => true
        cidr("10.0.0.0/8").containsCIDR("10.1.0.0/16") && !cidr("10.1.0.0/16").containsCIDR(cidr("10.0.0.0/8")) => true
        cidr("192.168.1.5/24").masked() == cidr("192.168.1.0/24") && cidr("::1/128").prefixLength() == 128 => true
        cidr("192.168.1.5/24").ip() == ip("192.168.1.5") && string(cidr("10.0.0.0/8")) == "10.0.0.0/8" => true
        isCIDR("10.0.0.0/33") || isCIDR("10.0.0.0") || isCIDR("10.0.0.0/08") => false
        cidr("0.0.0.0/0").containsIP("1.2.3.4") && !cidr("0.0.0.0/0").containsIP("::1") => true
        "#,
    );
}

#[test]
fn texts_that_are_no_addresses_are_explained() {
    check(
        r#"
        ip("") == ip("::1") => IP Address "" parse error during conversion from string: ParseAddr(""): unable to parse IP
        ip("1.2.3") == ip("::1") => IP Address "1.2.3" parse error during conversion from string: ParseAddr("1.2.3"): IPv4 address too short
        ip("1.2.3.4.5") == ip("::1") => IP Address "1.2.3.4.5" parse error during conversion from string: ParseAddr("1.2.3.4.5"): IPv4 address too long
        ip("1.2.3.256") == ip("::1") => IP Address "1.2.3.256" parse error during conversion from string: ParseAddr("1.2.3.256"): IPv4 field has value >255
        ip("1.2.3.04") == ip("::1") => IP Address "1.2.3.04" parse error during conversion from string: ParseAddr("1.2.3.04"): IPv4 field has octet with leading zero
        ip("1..3.4") == ip("::1") => IP Address "1..3.4" parse error during conversion from string: ParseAddr("1..3.4"): IPv4 field must have at least one digit (at ".3.4")
        ip("1.2.3.") == ip("::1") => IP Address "1.2.3." parse error during conversion from string: ParseAddr("1.2.3."): IPv4 field must have at least one digit (at ".")
        ip("1.2.3.x") == ip("::1") => IP Address "1.2.3.x" parse error during conversion from string: ParseAddr("1.2.3.x"): unexpected character (at "x")
        ip("1.2.3.4%eth0") == ip("::1") => IP Address "1.2.3.4%eth0" parse error during conversion from string: ParseAddr("1.2.3.4%eth0"): unexpected character (at "%eth0")
        ip("é.1") == ip("::1") => IP Address "é.1" parse error during conversion from string: ParseAddr("é.1"): unexpected character (at "é.1")
        ip("x:y") == ip("::1") => IP Address "x:y" parse error during conversion from string: ParseAddr("x:y"): each colon-separated field must have at least one digit (at "x:y")
        ip("1:") == ip("::1") => IP Address "1:" parse error during conversion from string: ParseAddr("1:"): colon must be followed by more characters (at ":")
        ip("1:2") == ip("::1") => IP Address "1:2" parse error during conversion from string: ParseAddr("1:2"): address string too short
        ip("::1::") == ip("::1") => IP Address "::1::" parse error during conversion from string: ParseAddr("::1::"): multiple :: in address (at ":")
        ip("12345::") == ip("::1") => IP Address "12345::" parse error during conversion from string: ParseAddr("12345::"): each group must have 4 or less digits (at "12345::")
        ip("1g::") == ip("::1") => IP Address "1g::" parse error during conversion from string: ParseAddr("1g::"): unexpected character, want colon (at "g::")
        ip("1:2:3:4:5:6:7:8:9") == ip("::1") => IP Address "1:2:3:4:5:6:7:8:9" parse error during conversion from string: ParseAddr("1:2:3:4:5:6:7:8:9"): trailing garbage after address (at "9")
        ip("1::2:3:4:5:6:7:8") == ip("::1") => IP Address "1::2:3:4:5:6:7:8" parse error during conversion from string: ParseAddr("1::2:3:4:5:6:7:8"): the :: must expand to at least one field of zeros
        ip("1:2:1.2.3.4") == ip("::1") => IP Address "1:2:1.2.3.4" parse error during conversion from string: ParseAddr("1:2:1.2.3.4"): embedded IPv4 address must replace the final 2 fields of the address (at "1.2.3.4")
        ip("1:2:3:4:5:6:7::1.2.3.4") == ip("::1") => IP Address "1:2:3:4:5:6:7::1.2.3.4" parse error during conversion from string: ParseAddr("1:2:3:4:5:6:7::1.2.3.4"): too many hex fields to fit an embedded IPv4 at the end of the address (at "1.2.3.4")
        ip("1:2:3:4:5::6:1.2.3.4") == ip("::1") => IP Address "1:2:3:4:5::6:1.2.3.4" parse error during conversion from string: ParseAddr("1:2:3:4:5::6:1.2.3.4"): the :: must expand to at least one field of zeros
        ip("::1.2.3") == ip("::1") => IP Address "::1.2.3" parse error during conversion from string: ParseAddr("::1.2.3"): IPv4 address too short
        ip("\u00a01.2.3.4") == ip("::1") => IP Address "\u00a01.2.3.4" parse error during conversion from string: ParseAddr("\u00a01.2.3.4"): unexpected character (at "\u00a01.2.3.4")
        "#,
    );
}

#[test]
fn urls_have_parts() {
    check(
        r#"
        url("https://user:pass@example.com:80/path?k=a&k=b#f").getHost() == "example.com:80" => true
        url("https://example.com:80/").getHostname() == "example.com" && url("https://[::1]:80/").getHostname() == "::1" => true
        url("https://example.com:80/").getPort() == "80" && url("https://[::1]/").getPort() == "" => true
        url("HTTPS://example.com/").getScheme() == "https" && url("/path").getScheme() == "" => true
        url("https://example.com/a b/").getEscapedPath() == "/a%20b/" => true
        url("https://example.com/?k=a&l=b+c&k=%64").getQuery() == {"k": ["a", "d"], "l": ["b c"]} => true
        isURL("/absolute") && !isURL("../relative") && !isURL("https://a:b:c/") && !isURL("nope") => true
        isURL("*") => true
        url("2026-01:x") == url("/") => URL parse error during conversion from string: parse "2026-01:x": invalid URI for request
        url(":x") == url("/") => URL parse error during conversion from string: parse ":x": missing protocol scheme
        url("nope") == url("/") => URL parse error during conversion from string: parse "nope": invalid URI for request
        "#,
    );
}

#[test]
fn named_formats_validate() {
    check(
        r#"
        !format.dns1123Label().validate("my-name").hasValue() && format.dns1123Label().validate("My").hasValue() => true
        !format.dns1123Subdomain().validate("a.b").hasValue() && !format.dns1035Label().validate("a1").hasValue() => true
        format.dns1035Label().validate("1a").hasValue() && !format.dns1123LabelPrefix().validate("a-").hasValue() => true
        !format.qualifiedName().validate("example.com/x").hasValue() && format.qualifiedName().validate("a/b/c").hasValue() => true
        !format.labelValue().validate("").hasValue() && format.labelValue().validate("-a").hasValue() => true
        !format.uri().validate("https://x/").hasValue() && format.uuid().validate("x").hasValue() => true
        !format.uuid().validate("123e4567-e89b-12d3-a456-426614174000").hasValue() => true
        !format.byte().validate("aGVsbG8=").hasValue() && format.byte().validate("aGVsbG8").hasValue() => true
        !format.date().validate("2021-02-28").hasValue() && format.date().validate("2021-02-30").hasValue() => true
        !format.datetime().validate("2021-01-01T00:00:00Z").hasValue() => true
        format.named("uri").hasValue() && !format.named("nope").hasValue() => true
        format.named("uuid").value().validate("x").value() == ["does not match the UUID format"] => true
        format.dns1123Label().validate(A.index).hasValue() => no such overload: validate(kubernetes.NamedFormat, int)
        "#,
    );
}

#[test]
fn names_that_are_not_there_are_reported() {
    check(
        r#"
        nosuch(device) => compile: undeclared reference to 'nosuch' (in container '')
        device.driver.foo() => compile: undeclared reference to 'foo' (in container '')
        math.greatest(1, 2) == 2 => compile: undeclared reference to 'math' (in container '')
        authorizer.path("/x").check("get").allowed() => compile: undeclared reference to 'authorizer' (in container '')
        min([3, 1]) == 1 => compile: found no matching overload for 'min' applied to '(list(int))'
        A.index.string() == "1" => compile: found no matching overload for 'string' applied to 'any.()'
        for == 1 => compile: reserved identifier: for
        1 = 1 => compile: Syntax error: token recognition error at: '= '
        (1 == 1 => compile: Syntax error: mismatched input '<EOF>' expecting ')'
        1 == 1) => compile: Syntax error: extraneous input ')' expecting <EOF>
        "#,
    );
}

#[test]
fn errors_of_the_compiler_show_their_places() {
    let describe = |source: &str| Expression::compile(source).expect_err(source).to_string();
    for (source, expected) in [
        (
            r#"true && true && 1 && "x""#,
            r#"compilation failed: ERROR: <input>:1:17: expected type 'bool' but found 'int'
 | true && true && 1 && "x"
 | ................^
ERROR: <input>:1:22: expected type 'bool' but found 'string'
 | true && true && 1 && "x"
 | .....................^"#,
        ),
        (
            r#"[1, has(device.driver)].size() == 2"#,
            r#"compilation failed: ERROR: <input>:1:8: expected type 'int' but found 'bool'
 | [1, has(device.driver)].size() == 2
 | .......^"#,
        ),
        (
            r#"has(device.foo)"#,
            r#"compilation failed: ERROR: <input>:1:4: undefined field 'foo'
 | has(device.foo)
 | ...^"#,
        ),
        (
            r#"[1, true && false && true && true].size() == 2"#,
            r#"compilation failed: ERROR: <input>:1:19: expected type 'int' but found 'bool'
 | [1, true && false && true && true].size() == 2
 | ..................^"#,
        ),
        (
            r#""é日本"	== 1"#,
            r#"compilation failed: ERROR: <input>:1:7: found no matching overload for '_==_' applied to '(string, int)'
 | "é日本" == 1
 | .．．．..^"#,
        ),
        (
            r#"[1].exists_one(x, 1)"#,
            r#"compilation failed: ERROR: <input>:1:15: found no matching overload for '_?_:_' applied to '(int, int, int)'
 | [1].exists_one(x, 1)
 | ..............^"#,
        ),
        (
            r#"[1].map(x, 1, x) == []"#,
            r#"compilation failed: ERROR: <input>:1:8: found no matching overload for '_?_:_' applied to '(int, list(int), list(int))'
 | [1].map(x, 1, x) == []
 | .......^"#,
        ),
        (
            r#""x".format([1]) == """#,
            r#"compilation failed: ERROR: <input>:1:11: too many arguments supplied to string.format (expected 0, got 1)
 | "x".format([1]) == ""
 | ..........^"#,
        ),
        (
            r#""%s %s".format(["a", [semver("1.2.3")]]) == """#,
            r#"compilation failed: ERROR: <input>:1:29: error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps, was given kubernetes.Semver
 | "%s %s".format(["a", [semver("1.2.3")]]) == ""
 | ............................^"#,
        ),
    ] {
        assert_eq!(describe(source), expected, "{source}");
    }
}

#[test]
fn an_expression_tells_which_attributes_it_reads() {
    let reads = |source: &str| {
        let expression = plimsoll_cel::Expression::compile(source).expect("it compiles");
        let path = |path: &plimsoll_cel::DomainPath| {
            let sort = if path.capacity { "capacity" } else { "attribute" };
            format!("{sort} {}/{}", path.domain, path.id)
        };
        expression.reads().map(|reads| reads.iter().map(path).collect::<Vec<_>>().join(", "))
    };
    for (source, expected) in [
        (r#"device.driver == "d" && device.allowMultipleAllocations"#, Some("")),
        (
            r#"has(device.attributes["d"].b) && device.attributes["d"].a == 1 || device.capacity["d"].c.isGreaterThan(quantity("1"))"#,
            Some("attribute d/a, attribute d/b, capacity d/c"),
        ),
        // Inside of a macro, and through a variable.
        (r#"[1, 2].exists(n, n == device.attributes["d"].a)"#, Some("attribute d/a")),
        (r#"[device.attributes["d"]].all(one, one.a == 1)"#, None),
        // The name is computed, or it may be absent.
        (r#"device.attributes["d"][device.driver] == 1"#, None),
        (r#"device.attributes["d"].?a.orValue(1) == 1"#, None),
        (r#""d" in device.attributes"#, None),
    ] {
        assert_eq!(reads(source).as_deref(), expected, "{source}");
    }
}
