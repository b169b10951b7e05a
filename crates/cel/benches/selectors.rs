//! What it costs to compile a selector of ten terms, and to ask it about a device.
//!
//! `cargo bench -p plimsoll-cel`.

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use plimsoll_api::Quantity;
use plimsoll_cel::{AttributeValue, Device, Expression};

fn main() {
    divan::main();
}

/// Ten terms, all of which hold for [`device`], so that all are evaluated.
const TERMS: [&str; 10] = [
    r#"device.driver == "gpu.example.com""#,
    r#"device.attributes["gpu.example.com"].model == "A100""#,
    r#"device.attributes["gpu.example.com"].model in ["A100", "H100"]"#,
    r#"device.attributes["gpu.example.com"].index < 4"#,
    r#"device.attributes["gpu.example.com"].healthy"#,
    r#"device.attributes["resource.kubernetes.io"].pcieRoot == "pci0000:01""#,
    r#"device.attributes["gpu.example.com"].driverVersion.isGreaterThan(semver("535.0.0"))"#,
    r#"device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0"#,
    r#"has(device.attributes["gpu.example.com"].uuid)"#,
    r#"device.attributes["gpu.example.com"].uuid.startsWith("GPU-")"#,
];

fn device() -> Device {
    let text = |text: &str| AttributeValue::String(text.to_owned());
    let attributes = [
        ("model", text("A100")),
        ("index", AttributeValue::Int(3)),
        ("healthy", AttributeValue::Bool(true)),
        ("resource.kubernetes.io/pcieRoot", text("pci0000:01")),
        ("driverVersion", AttributeValue::Version("550.54.15".to_owned())),
        ("uuid", text("GPU-e2012e5b")),
    ];
    let memory = Quantity::parse("80Gi").expect("well formed");
    Device::new("gpu.example.com", false, attributes, [("memory", memory)])
}

/// Ten terms at once; the throughput is that of terms.
#[divan::bench]
fn ten_terms(bencher: Bencher<'_, '_>) {
    let expression = Expression::compile(&TERMS.join(" && ")).expect("well formed");
    let device = device();
    assert_eq!(expression.matches(&device), Ok(true));
    bencher
        .counter(ItemsCount::new(TERMS.len()))
        .bench_local(|| black_box(&expression).matches(black_box(&device)));
}

/// Each term alone.
#[divan::bench(args = TERMS)]
fn term(bencher: Bencher<'_, '_>, term: &str) {
    let expression = Expression::compile(term).expect("well formed");
    let device = device();
    assert_eq!(expression.matches(&device), Ok(true));
    bencher.bench_local(|| black_box(&expression).matches(black_box(&device)));
}

/// The ten terms are compiled.
#[divan::bench]
fn compile(bencher: Bencher<'_, '_>) {
    let source = TERMS.join(" && ");
    bencher.bench_local(|| Expression::compile(black_box(&source)));
}
