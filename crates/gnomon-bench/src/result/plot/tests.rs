//! Figures as text: what is where, and that everything is there.

use super::*;

fn figure(points: Vec<(f64, f64)>, scale: Scale) -> Figure {
    let stated = vec![
        Stated { label: "a < b".into(), points: vec![(2.0, 25.0), (f64::NAN, 1.0)], throughout: false },
        Stated { label: String::new(), points: vec![(1.0, 75.0), (64.0, 75.0)], throughout: true },
    ];
    let panel = Panel {
        x: Axis { label: "x", scale },
        y: Axis { label: "y", scale: Scale::Linear },
        curves: vec![Curve { label: "a < b".into(), points }],
        stated,
    };
    Figure { name: "figure".into(), title: "A & B".into(), panels: vec![panel.clone(), panel] }
}

#[test]
fn a_figure_has_every_point_in_every_panel_and_escapes_its_texts() {
    let points = vec![(1.0, 0.0), (2.0, 50.0), (64.0, 100.0), (f64::NAN, 1.0), (0.0, 7.0)];
    let figure = figure(points, Scale::Logarithmic(2));
    let svg = figure.to_svg();
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    assert!(svg.contains("A &amp; B") && svg.contains("a &lt; b"));
    // Once in the legend.
    assert_eq!(svg.matches("class=\"mark\"").count(), 6 + 1, "zero and NaN have no place: {svg}");
    assert_eq!(svg.matches("class=\"ring").count(), 2 + 1);
    assert_eq!(svg.matches("class=\"dashes").count(), 2 + 1);
    // The first point is at the left and at the bottom, the last at the right and at the top.
    assert!(svg.contains("points=\"36.6,198.0 ") && svg.contains(" 338.0,28.0\""), "{svg}");
    assert!(svg.contains("<title>a &lt; b: 50.00 y at 2.000 x</title>"), "{svg}");
    assert!(svg.contains("<title>stated: 75.00 y at 64.00 x</title>"), "{svg}");
    assert!(!svg.contains("NaN") && !svg.contains("inf"));
    let panel = figure.panels[0].draw().into_string();
    assert!(
        panel.contains("<title>y by x</title>")
            && panel.contains("Curves: a &lt; b; a &lt; b, stated; stated.")
    );
}

#[test]
fn what_is_stated_of_a_curve_has_its_colour_and_the_legend_names_it() {
    let keys = figure(Vec::new(), Scale::Linear).keys();
    let named: Vec<_> = keys.iter().map(|key| (key.label.as_str(), key.look)).collect();
    assert_eq!(
        named,
        [("a < b", Look::Curve(0)), ("a < b, stated", Look::Ring(Some(0))), ("stated", Look::Dashes(None))]
    );
    let mut other = figure(Vec::new(), Scale::Linear);
    for (label, number) in [("a < b: twice c", Some(0)), ("a < bc", None)] {
        other.panels[0].stated[0].label = label.into();
        assert_eq!(other.panels[0].keys()[1].look, Look::Ring(number), "{label}");
    }
    other.panels[1].curves[0].label = "c".into();
    let names = |keys: Vec<Key>| keys.into_iter().map(|key| key.label).collect::<Vec<_>>();
    assert_eq!(names(other.keys()), ["stated"], "what both have");
    assert_eq!(names(other.keys_of(&other.panels[1])), ["c", "a < b, stated"]);
    assert!(other.to_svg().contains(">c<"));
}

#[test]
fn figures_of_nothing_can_be_drawn() {
    for scale in [Scale::Linear, Scale::Logarithmic(10)] {
        for points in [vec![], vec![(5.0, 5.0)], vec![(0.0, 0.0)]] {
            let mut figure = figure(points, scale);
            figure.panels[0].stated.clear();
            let svg = figure.to_svg();
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
            figure.panels.clear();
            assert!(figure.to_svg().contains("A &amp; B"));
        }
    }
}

#[test]
fn no_two_curves_look_the_same() {
    let mut looks: Vec<String> = (0..40).map(|index| colour(Some(index)) + &shape(index, 0.0, 0.0)).collect();
    looks.sort();
    looks.dedup();
    assert_eq!(looks.len(), 40);
}

#[test]
fn numbers_are_short_and_labels_are_broken_between_words() {
    let names: Vec<String> = [0.0, 0.5, 900.0, 20_000.0, 2_500_000.0].map(number).into();
    assert_eq!(names, ["0", "0.5", "900", "20k", "2.5M"]);
    let names: Vec<String> = [0.0, 0.000_123_456, 1.0, 98.765, 123_456.7, -2.0].map(significant).into();
    assert_eq!(names, ["0", "0.0001235", "1.000", "98.77", "123457", "-2.000"]);
    assert_eq!(lines("one two three", 7), ["one two", "three"]);
    assert_eq!(lines("", 7), [""; 0]);
}

#[test]
fn every_colour_has_a_contrast_of_three_to_its_ground() {
    let luminance = |hex: &str| {
        let channel = |at: usize| {
            let value = f64::from(u8::from_str_radix(&hex[at..at + 2], 16).unwrap()) / 255.0;
            if value <= 0.040_45 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
    };
    let themes: Vec<&str> = STYLE.split(":root {").skip(1).collect();
    assert_eq!(themes.len(), 2);
    for theme in themes {
        let of = |name: &str| {
            let (_, rest) = theme.split_once(&format!("--{name}: ")).unwrap();
            luminance(&rest[..7])
        };
        let ground = of("ground");
        for index in 0..LOOKS {
            let colour = of(&format!("c{index}"));
            let contrast = (colour.max(ground) + 0.05) / (colour.min(ground) + 0.05);
            assert!(contrast >= 3.0, "{index}: {contrast}");
        }
    }
}
