//! Trigonometric and hyperbolic functions. Those of degrees are exact where the result is: they are scaled so that
//! they have the values of the multiples of 30 and 45 degrees.

use std::f64::consts::{LN_2, PI};

use super::{
    arguments::{float, out_of_range},
    declaration::Declarations,
    math::overflow,
};
use crate::{
    Result,
    types::{Datum, Type},
};

const FLOAT8: Type = Type::Float8;
/// From here on the square of a number may overflow, and one more or less makes no difference to it.
const LARGE: f64 = 1e150;
const RADIANS_PER_DEGREE: f64 = PI / 180.0;

/// Fails for an argument outside of a function's domain.
fn within(is_within: bool, result: impl FnOnce() -> f64) -> Result<f64> {
    if is_within { Ok(result()) } else { Err(out_of_range("input is")) }
}

/// Sine of at most 30 degrees.
fn sine_to_30(degrees: f64) -> f64 {
    (degrees * RADIANS_PER_DEGREE).sin() / (30.0 * RADIANS_PER_DEGREE).sin() / 2.0
}

/// Cosine of at most 60 degrees.
fn cosine_to_60(degrees: f64) -> f64 {
    1.0 - (1.0 - (degrees * RADIANS_PER_DEGREE).cos()) / (1.0 - (60.0 * RADIANS_PER_DEGREE).cos()) / 2.0
}

/// Sine of 0 to 90 degrees.
fn sine_to_90(degrees: f64) -> f64 {
    if degrees <= 30.0 { sine_to_30(degrees) } else { cosine_to_60(90.0 - degrees) }
}

/// Cosine of 0 to 90 degrees.
fn cosine_to_90(degrees: f64) -> f64 {
    if degrees <= 60.0 { cosine_to_60(degrees) } else { sine_to_30(90.0 - degrees) }
}

/// An angle reduced to 0 to 90 degrees, with the signs of its sine and cosine.
struct Angle {
    degrees: f64,
    sine_sign: f64,
    cosine_sign: f64,
}

impl Angle {
    fn of(degrees: f64) -> Angle {
        let mut angle = Angle { degrees: degrees % 360.0, sine_sign: 1.0, cosine_sign: 1.0 };
        if angle.degrees < 0.0 {
            (angle.degrees, angle.sine_sign) = (-angle.degrees, -1.0);
        }
        if angle.degrees > 180.0 {
            (angle.degrees, angle.sine_sign) = (360.0 - angle.degrees, -angle.sine_sign);
        }
        if angle.degrees > 90.0 {
            (angle.degrees, angle.cosine_sign) = (180.0 - angle.degrees, -1.0);
        }
        angle
    }

    fn sine(&self) -> f64 {
        self.sine_sign * sine_to_90(self.degrees)
    }

    fn cosine(&self) -> f64 {
        self.cosine_sign * cosine_to_90(self.degrees)
    }

    fn tangent(&self) -> f64 {
        let of_45 = sine_to_90(45.0) / cosine_to_90(45.0);
        let tangent = sine_to_90(self.degrees) / cosine_to_90(self.degrees) / of_45;
        without_sign_of_zero(self.sine_sign * self.cosine_sign * tangent)
    }

    fn cotangent(&self) -> f64 {
        let of_45 = cosine_to_90(45.0) / sine_to_90(45.0);
        let cotangent = cosine_to_90(self.degrees) / sine_to_90(self.degrees) / of_45;
        without_sign_of_zero(self.sine_sign * self.cosine_sign * cotangent)
    }
}

fn without_sign_of_zero(value: f64) -> f64 {
    if value == 0.0 { 0.0 } else { value }
}

/// Arc sine of 0 to 1, in degrees.
fn arc_sine(value: f64) -> f64 {
    if value <= 0.5 {
        value.asin() / 0.5_f64.asin() * 30.0
    } else {
        90.0 - value.acos() / 0.5_f64.acos() * 60.0
    }
}

/// Arc cosine of 0 to 1, in degrees.
fn arc_cosine(value: f64) -> f64 {
    if value <= 0.5 {
        90.0 - value.asin() / 0.5_f64.asin() * 30.0
    } else {
        value.acos() / 0.5_f64.acos() * 60.0
    }
}

fn is_ratio(value: f64) -> bool {
    value.is_nan() || (-1.0..=1.0).contains(&value)
}

/// Declares a function of one number.
macro_rules! function {
    ($all:expr, $name:expr, $of:expr) => {
        $all.add($name, &[FLOAT8], FLOAT8, |_, a| {
            let of: fn(f64) -> Result<f64> = $of;
            of(float(a, 0)?).map(Datum::Float8)
        });
    };
}

pub(super) fn declare(all: &mut Declarations) {
    all.add::<Type>("pi", &[], FLOAT8, |_, _| Ok(Datum::Float8(PI)));
    function!(all, "degrees", |x| match x / RADIANS_PER_DEGREE {
        degrees if degrees.is_infinite() && x.is_finite() => Err(overflow("overflow")),
        degrees => Ok(degrees),
    });
    function!(all, "radians", |x| match x * RADIANS_PER_DEGREE {
        0.0 if x != 0.0 => Err(overflow("underflow")),
        radians => Ok(radians),
    });

    function!(all, "sin", |x| within(!x.is_infinite(), || x.sin()));
    function!(all, "cos", |x| within(!x.is_infinite(), || x.cos()));
    function!(all, "tan", |x| within(!x.is_infinite(), || x.tan()));
    function!(all, "cot", |x| within(!x.is_infinite(), || 1.0 / x.tan()));
    function!(all, "asin", |x| within(is_ratio(x), || x.asin()));
    function!(all, "acos", |x| within(is_ratio(x), || x.acos()));
    function!(all, "atan", |x| Ok(x.atan()));
    all.add("atan2", &[FLOAT8, FLOAT8], FLOAT8, |_, a| Ok(Datum::Float8(float(a, 0)?.atan2(float(a, 1)?))));

    function!(all, "sind", |x| within(!x.is_infinite(), || Angle::of(x).sine()));
    function!(all, "cosd", |x| within(!x.is_infinite(), || Angle::of(x).cosine()));
    function!(all, "tand", |x| within(!x.is_infinite(), || Angle::of(x).tangent()));
    function!(all, "cotd", |x| within(!x.is_infinite(), || Angle::of(x).cotangent()));
    function!(all, "asind", |x| within(is_ratio(x), || if x >= 0.0 { arc_sine(x) } else { -arc_sine(-x) }));
    function!(all, "acosd", |x| within(is_ratio(x), || match x >= 0.0 {
        true => arc_cosine(x),
        false => 90.0 + arc_sine(-x),
    }));
    function!(all, "atand", |x| Ok(x.atan() / 1_f64.atan() * 45.0));
    all.add("atan2d", &[FLOAT8, FLOAT8], FLOAT8, |_, a| {
        Ok(Datum::Float8(float(a, 0)?.atan2(float(a, 1)?) / 1_f64.atan() * 45.0))
    });

    function!(all, "sinh", |x| Ok(x.sinh()));
    function!(all, "cosh", |x| Ok(x.cosh()));
    function!(all, "tanh", |x| Ok(x.tanh()));
    function!(all, "asinh", |x| Ok(match x.abs() {
        LARGE.. => (x.abs().ln() + LN_2).copysign(x),
        _ if x.is_nan() || x == 0.0 => x,
        _ => x.asinh(),
    }));
    function!(all, "acosh", |x| within(x.is_nan() || x >= 1.0, || match x {
        LARGE.. => x.ln() + LN_2,
        _ => x.acosh(),
    }));
    function!(all, "atanh", |x| within(is_ratio(x), || match x.abs() == 1.0 {
        true => x * f64::INFINITY,
        false => x.atanh(),
    }));
}
