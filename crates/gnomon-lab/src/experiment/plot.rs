//! Figures of curves as SVG: panels one below the other, each with its axes.
//!
//! Promises: a figure is a text that depends on its data alone, needs no font, script or other file, and escapes what
//! it is given. Points that cannot be drawn (not finite; not positive on a logarithmic axis) are left out.
//!
//! Not done here: bars, areas, anything that moves.

use std::fmt::Write;

use serde::{Deserialize, Serialize, Serializer};

/// A figure.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Figure<T = &'static str> {
    /// Its file's name, without an ending.
    pub name: String,
    /// What stands above it.
    pub title: String,
    /// From top to bottom.
    pub panels: Vec<Panel<T>>,
}

/// One pair of axes with curves.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Panel<T = &'static str> {
    /// The horizontal axis.
    pub x: Axis<T>,
    /// The vertical axis.
    pub y: Axis<T>,
    /// The curves.
    pub curves: Vec<Curve>,
}

/// An axis.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Axis<T = &'static str> {
    /// What it measures, and in which unit.
    pub label: T,
    /// How numbers are spread over it.
    pub scale: Scale,
}

/// How numbers are spread over an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// Evenly, from zero.
    Linear,
    /// Each power of this base takes the same room.
    Logarithmic(u32),
}

/// A curve: points joined by lines.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Curve {
    /// What it shows.
    pub label: String,
    /// Its points, from left to right.
    #[serde(serialize_with = "finite")]
    pub points: Vec<(f64, f64)>,
}

/// Points that have a place: JSON has no others.
fn finite<S: Serializer>(points: &[(f64, f64)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(points.iter().filter(|(x, y)| x.is_finite() && y.is_finite()))
}

const WIDTH: f64 = 820.0;
const PANEL_HEIGHT: f64 = 280.0;
const TOP: f64 = 44.0;
const LEFT: f64 = 86.0;
/// Room for the names of the curves.
const RIGHT: f64 = 250.0;
const BOTTOM: f64 = 52.0;
/// Colours that colour-blind people can tell apart (Okabe and Ito).
const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"];

impl<T: AsRef<str>> Figure<T> {
    /// The figure as SVG.
    pub fn to_svg(&self) -> String {
        let height = TOP + self.panels.len() as f64 * PANEL_HEIGHT;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
             viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        );
        text(&mut svg, WIDTH / 2.0, 22.0, "middle", 15, &self.title);
        for (number, panel) in self.panels.iter().enumerate() {
            panel.draw(&mut svg, TOP + number as f64 * PANEL_HEIGHT);
        }
        svg.push_str("</svg>\n");
        svg
    }
}

impl<T: AsRef<str>> Panel<T> {
    fn draw(&self, svg: &mut String, top: f64) {
        let points =
            || self.curves.iter().flat_map(|curve| &curve.points).filter(|point| self.can_draw(point));
        let x = Spread::of(self.x.scale, points().map(|point| point.0), LEFT, WIDTH - RIGHT);
        let y =
            Spread::of(self.y.scale, points().map(|point| point.1), top + PANEL_HEIGHT - BOTTOM, top + 8.0);
        for tick in x.ticks() {
            let at = x.place(tick);
            line(svg, (at, y.start), (at, y.end), "#dddddd");
            text(svg, at, y.start + 16.0, "middle", 11, &number(tick));
        }
        for tick in y.ticks() {
            let at = y.place(tick);
            line(svg, (x.start, at), (x.end, at), "#dddddd");
            text(svg, x.start - 6.0, at + 4.0, "end", 11, &number(tick));
        }
        line(svg, (x.start, y.start), (x.end, y.start), "black");
        line(svg, (x.start, y.start), (x.start, y.end), "black");
        text(svg, (x.start + x.end) / 2.0, y.start + 36.0, "middle", 12, self.x.label.as_ref());
        let (label_x, label_y) = (18.0, (y.start + y.end) / 2.0);
        let _ = writeln!(
            svg,
            "<text x=\"{label_x}\" y=\"{label_y:.1}\" text-anchor=\"middle\" \
             transform=\"rotate(-90 {label_x} {label_y:.1})\">{}</text>",
            escaped(self.y.label.as_ref())
        );
        for (index, curve) in self.curves.iter().enumerate() {
            let colour = COLOURS[index % COLOURS.len()];
            let drawn: Vec<(f64, f64)> = curve
                .points
                .iter()
                .filter(|point| self.can_draw(point))
                .map(|point| (x.place(point.0), y.place(point.1)))
                .collect();
            let path: Vec<String> = drawn.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
            let _ = writeln!(
                svg,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.8\"/>",
                path.join(" ")
            );
            // Marks tell measured points from the lines between them, as long as there are few.
            if drawn.len() <= 40 {
                for (x, y) in drawn {
                    let _ =
                        writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.6\" fill=\"{colour}\"/>");
                }
            }
            let at = top + 18.0 + index as f64 * 18.0;
            line(svg, (x.end + 12.0, at - 4.0), (x.end + 34.0, at - 4.0), colour);
            text(svg, x.end + 40.0, at, "start", 11, &curve.label);
        }
    }

    fn can_draw(&self, &(x, y): &(f64, f64)) -> bool {
        let fits = |scale, number: f64| number.is_finite() && (scale == Scale::Linear || number > 0.0);
        fits(self.x.scale, x) && fits(self.y.scale, y)
    }
}

/// Where the numbers of an axis are in the figure.
struct Spread {
    scale: Scale,
    low: f64,
    high: f64,
    start: f64,
    end: f64,
}

impl Spread {
    fn of(scale: Scale, numbers: impl Iterator<Item = f64>, start: f64, end: f64) -> Spread {
        let (low, high) =
            numbers.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), n| (low.min(n), high.max(n)));
        let (low, high) = match scale {
            Scale::Linear => {
                let low = low.min(0.0);
                let high = if high > low { high } else { low + 1.0 };
                let step = step(high - low);
                ((low / step).floor() * step, (high / step).ceil() * step)
            }
            Scale::Logarithmic(base) if low <= high => {
                let base = f64::from(base);
                let (low, high) = (low.log(base).floor(), high.log(base).ceil());
                (base.powf(low), base.powf(if high > low { high } else { low + 1.0 }))
            }
            Scale::Logarithmic(base) => (1.0, f64::from(base)),
        };
        Spread { scale, low, high, start, end }
    }

    fn place(&self, number: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => (number - self.low) / (self.high - self.low),
            Scale::Logarithmic(_) => (number / self.low).ln() / (self.high / self.low).ln(),
        };
        self.start + share * (self.end - self.start)
    }

    fn ticks(&self) -> Vec<f64> {
        const TICKS_MAX: usize = 64;
        let mut ticks = Vec::new();
        let mut number = self.low;
        while number <= self.high * 1.000_001 && ticks.len() < TICKS_MAX {
            ticks.push(number);
            number = match self.scale {
                Scale::Linear => number + step(self.high - self.low),
                Scale::Logarithmic(base) => number * f64::from(base),
            };
        }
        ticks
    }
}

/// The distance of ticks: 1, 2 or 5 times a power of ten, so that there are 4 to 10 of them.
fn step(range: f64) -> f64 {
    let power = 10f64.powf((range / 10.0).log10().ceil());
    [0.2, 0.5].into_iter().map(|part| part * power).find(|step| range / step <= 10.0).unwrap_or(power)
}

/// A number for people, short.
fn number(number: f64) -> String {
    let rounded = (number * 1e6).round() / 1e6;
    match rounded.abs() {
        size if size >= 1e6 => format!("{}M", rounded / 1e6),
        size if size >= 1e4 => format!("{}k", rounded / 1e3),
        _ => rounded.to_string(),
    }
}

fn line(svg: &mut String, from: (f64, f64), to: (f64, f64), colour: &str) {
    let _ = writeln!(
        svg,
        "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\"/>",
        from.0, from.1, to.0, to.1
    );
}

fn text(svg: &mut String, x: f64, y: f64, anchor: &str, size: u32, what: &str) {
    let _ = writeln!(
        svg,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" font-size=\"{size}\">{}</text>",
        escaped(what)
    );
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figure(points: Vec<(f64, f64)>, scale: Scale) -> Figure {
        let curves = vec![Curve { label: "a < b".into(), points }];
        let panel =
            Panel { x: Axis { label: "x", scale }, y: Axis { label: "y", scale: Scale::Linear }, curves };
        Figure { name: "figure".into(), title: "A & B".into(), panels: vec![panel.clone(), panel] }
    }

    #[test]
    fn a_figure_has_every_point_in_every_panel_and_escapes_its_texts() {
        let points = vec![(1.0, 0.0), (2.0, 50.0), (64.0, 100.0), (f64::NAN, 1.0), (0.0, 7.0)];
        let svg = figure(points, Scale::Logarithmic(2)).to_svg();
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert!(svg.contains("A &amp; B") && svg.contains("a &lt; b"));
        assert_eq!(svg.matches("<circle").count(), 6, "zero and NaN have no place: {svg}");
        // The first point is at the left and at the bottom, the last at the right and at the top.
        assert!(svg.contains("86.0,272.0 ") && svg.contains(" 570.0,52.0\""), "{svg}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"));
    }

    #[test]
    fn figures_of_nothing_can_be_drawn() {
        for scale in [Scale::Linear, Scale::Logarithmic(10)] {
            for points in [vec![], vec![(5.0, 5.0)], vec![(0.0, 0.0)]] {
                let svg = figure(points, scale).to_svg();
                assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            }
        }
    }

    #[test]
    fn ticks_are_round_and_few() {
        for range in [0.003, 1.0, 7.0, 64.0, 99.0, 123_456.0] {
            let count = range / step(range);
            assert!((2.0..=10.0).contains(&count), "{range}: {count}");
        }
        let names: Vec<String> = [0.0, 0.5, 900.0, 20_000.0, 2_500_000.0].map(number).into();
        assert_eq!(names, ["0", "0.5", "900", "20k", "2.5M"]);
    }
}
