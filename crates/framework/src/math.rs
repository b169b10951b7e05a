//! Arithmetic that must give what Go gives, to the last bit.

/// The natural logarithm, bit for bit as Go's `math.Log` on amd64.
///
/// Go's assembly for amd64 evaluates the same reduction and polynomial as its portable version
/// (FreeBSD's e_log.c), without fused operations; so does this.
#[expect(clippy::many_single_char_names, reason = "the names of the published algorithm")]
#[expect(
    clippy::unreadable_literal,
    clippy::excessive_precision,
    reason = "constants as published, to the digit"
)]
pub fn ln(x: f64) -> f64 {
    const LN2_HI: f64 = 6.93147180369123816490e-01;
    const LN2_LO: f64 = 1.90821492927058770002e-10;
    const L: [f64; 7] = [
        6.666666666666735130e-01,
        3.999999999940941908e-01,
        2.857142874366239149e-01,
        2.222219843214978396e-01,
        1.818357216161805012e-01,
        1.531383769920937332e-01,
        1.479819860511658591e-01,
    ];
    if x.is_nan() || x == f64::INFINITY {
        return x;
    }
    if x < 0.0 {
        return f64::NAN;
    }
    if x == 0.0 {
        return f64::NEG_INFINITY;
    }
    let (mut f1, mut ki) = frexp(x);
    if f1 < std::f64::consts::SQRT_2 / 2.0 {
        f1 *= 2.0;
        ki -= 1;
    }
    let f = f1 - 1.0;
    let k = f64::from(ki);
    let s = f / (2.0 + f);
    let s2 = s * s;
    let s4 = s2 * s2;
    let t1 = s2 * (L[0] + s4 * (L[2] + s4 * (L[4] + s4 * L[6])));
    let t2 = s4 * (L[1] + s4 * (L[3] + s4 * L[5]));
    let r = t1 + t2;
    let hfsq = 0.5 * f * f;
    k * LN2_HI - ((hfsq - (s * (hfsq + r) + k * LN2_LO)) - f)
}

/// Splits a positive normal or subnormal number into a fraction in [½, 1) and a power of two.
fn frexp(x: f64) -> (f64, i32) {
    const BIAS: u64 = 1022;
    let (x, shift) = if x < f64::MIN_POSITIVE { (x * 2_f64.powi(52), -52) } else { (x, 0) };
    let bits = x.to_bits();
    let exponent = i32::try_from((bits >> 52) & 0x7ff).expect("eleven bits fit") - 1022;
    let fraction = f64::from_bits((bits & !(0x7ff << 52)) | (BIAS << 52));
    (fraction, exponent + shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "it is what ours is compared with")]
    fn the_logarithm_agrees_with_the_exact_one_to_the_last_place() {
        for n in 1..100_000_u32 {
            let (ours, exact) = (ln(f64::from(n)), f64::from(n).ln());
            let apart = ours.to_bits().abs_diff(exact.to_bits());
            assert!(apart <= 1, "ln({n}) = {ours}, expected {exact}");
        }
    }

    #[test]
    fn known_values_and_limits_are_right() {
        assert_eq!(ln(1.0).to_bits(), 0.0_f64.to_bits());
        assert_eq!(ln(2.0).to_bits(), std::f64::consts::LN_2.to_bits());
        assert!(ln(-1.0).is_nan());
        assert!(ln(0.0).is_infinite());
    }
}
