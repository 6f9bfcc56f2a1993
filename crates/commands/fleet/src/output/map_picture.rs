//! The map of services as a picture: clients on the left, what they use on the right.

use sockeye_fleet::question::ServiceEdge;
use sockeye_output::harmless;
use sockeye_output::picture::paint::Paint;
use sockeye_output::picture::scene::{Anchor, Scene, Shape};
use sockeye_output::picture::text_metrics::shortened;
use std::collections::{BTreeMap, BTreeSet};

/// Lays out services in columns: each is right of what uses it, unless they use each other. The width of a line grows with its bytes; one
/// that loses segments has another colour.
pub(crate) fn map_picture(edges: &[ServiceEdge]) -> Scene {
    let columns = columns_of(edges);
    let mut rows: BTreeMap<usize, usize> = BTreeMap::new();
    let mut places: BTreeMap<&str, [f32; 2]> = BTreeMap::new();
    for (name, column) in &columns {
        let row = rows.entry(*column).or_default();
        let left = EDGE + *column as f32 * (BOX_WIDTH + COLUMN_SPACE);
        let top = TOP + *row as f32 * (BOX_HEIGHT + ROW_SPACE);
        places.insert(name, [left, top]);
        *row += 1;
    }
    let mut shapes: Vec<_> = edges.iter().filter_map(|edge| line(edge, &places)).collect();
    for (name, at) in &places {
        push_service(&mut shapes, name, *at, edges);
    }
    let column_count = columns.values().max().map_or(1, |last| last + 1) as f32;
    let row_count = rows.values().max().copied().unwrap_or(1) as f32;
    shapes.push(text(Paint::Text, [EDGE, 26.0], 15.0, TITLE.to_owned()));
    Scene {
        width: WIDTH_MIN.max(EDGE * 2.0 + column_count * (BOX_WIDTH + COLUMN_SPACE) - COLUMN_SPACE),
        height: TOP + row_count * (BOX_HEIGHT + ROW_SPACE) + EDGE,
        title: TITLE.to_owned(),
        description: format!("{} services, {} edges between them", columns.len(), edges.len()),
        shapes,
        behaviour: None,
    }
}

/// Returns the column of each service. A circle is cut where its services have come furthest.
fn columns_of(edges: &[ServiceEdge]) -> BTreeMap<&str, usize> {
    let names = edges
        .iter()
        .flat_map(|edge| [edge.client.as_str(), edge.server.as_str()]);
    let mut columns: BTreeMap<&str, usize> = names.map(|name| (name, 0)).collect();
    for _ in 0..COLUMNS_MAX {
        let mut has_moved = false;
        for edge in edges.iter().filter(|edge| edge.client != edge.server) {
            let next = columns.get(edge.client.as_str()).map_or(0, |column| column + 1);
            if let Some(column) = columns.get_mut(edge.server.as_str())
                && *column < next
                && next < COLUMNS_MAX
            {
                *column = next;
                has_moved = true;
            }
        }
        if !has_moved {
            break;
        }
    }
    // Services that use each other leave columns empty behind them.
    let used: BTreeSet<usize> = columns.values().copied().collect();
    for column in columns.values_mut() {
        *column = used.range(..*column).count();
    }
    columns
}

fn line(edge: &ServiceEdge, places: &BTreeMap<&str, [f32; 2]>) -> Option<Shape> {
    let (from, to) = (
        places.get(edge.client.as_str())?,
        places.get(edge.server.as_str())?,
    );
    let bytes = edge.request_bytes + edge.response_bytes;
    let is_lossy = edge.retrans_segs * SEGMENT_BYTES * 100 >= bytes.max(1) && edge.retrans_segs > 0;
    let middle = BOX_HEIGHT / 2.0;
    Some(Shape::Line {
        paint: if is_lossy {
            Paint::Retransmitted
        } else {
            Paint::Data
        },
        width: 1.0 + (bytes.max(1).ilog10() as f32) / 3.0,
        stairs: false,
        points: vec![[from[0] + BOX_WIDTH, from[1] + middle], [to[0], to[1] + middle]],
    })
}

/// Adds the box of a service: its name, and the ports at which it is used.
fn push_service(shapes: &mut Vec<Shape>, name: &str, at: [f32; 2], edges: &[ServiceEdge]) {
    shapes.push(Shape::Fill {
        paint: Paint::Grid,
        at,
        size: [BOX_WIDTH, BOX_HEIGHT],
    });
    let room = BOX_WIDTH - 2.0 * BOX_EDGE;
    let name_text = shortened(&harmless(name.as_bytes()), 12.0, false, room);
    shapes.push(text(
        Paint::Text,
        [at[0] + BOX_EDGE, at[1] + 17.0],
        12.0,
        name_text,
    ));
    let used = edges.iter().filter(|edge| edge.server == name);
    let ports: BTreeSet<_> = used.map(|edge| edge.port).collect();
    if !ports.is_empty() {
        let ports: Vec<_> = ports.iter().map(ToString::to_string).collect();
        let ports = shortened(&format!("port {}", ports.join(", ")), 10.0, false, room);
        shapes.push(text(Paint::Faint, [at[0] + BOX_EDGE, at[1] + 32.0], 10.0, ports));
    }
}

const fn text(paint: Paint, at: [f32; 2], size: f32, text: String) -> Shape {
    Shape::Text {
        paint,
        at,
        size,
        anchor: Anchor::Start,
        bold: false,
        text,
    }
}

const TITLE: &str = "Which services use which";
const EDGE: f32 = 16.0;
/// The title fits.
const WIDTH_MIN: f32 = 280.0;
const TOP: f32 = 44.0;
const BOX_WIDTH: f32 = 170.0;
const BOX_HEIGHT: f32 = 40.0;
const BOX_EDGE: f32 = 8.0;
const COLUMN_SPACE: f32 = 110.0;
const ROW_SPACE: f32 = 14.0;
/// Columns of a map: services that use each other would never come to rest.
const COLUMNS_MAX: usize = 12;
/// Bytes of a full segment on Ethernet.
const SEGMENT_BYTES: u64 = 1_448;

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(client: &str, server: &str, port: u16) -> ServiceEdge {
        ServiceEdge {
            client: client.to_owned(),
            server: server.to_owned(),
            port,
            edges: 1,
            edges_of_both: 1,
            connections: 1,
            opened: 1,
            request_bytes: 10,
            response_bytes: 1_000_000,
            retrans_segs: 0,
            rtt_us_mean: 0,
        }
    }

    #[test]
    fn service_is_right_of_what_uses_it() {
        let edges = [
            edge("web", "shop", 80),
            edge("shop", "postgres", 5432),
            edge("web", "postgres", 5432),
        ];
        let columns = columns_of(&edges);
        assert_eq!(
            columns,
            BTreeMap::from([("postgres", 2), ("shop", 1), ("web", 0)])
        );
        let scene = map_picture(&edges);
        assert_eq!(scene.unreadable_text(), None);
        let texts: Vec<_> = scene.text_boxes().into_iter().map(|(text, _)| text).collect();
        assert_eq!(
            texts,
            [
                "postgres",
                "port 5432",
                "shop",
                "port 80",
                "web",
                "Which services use which"
            ]
        );
    }

    #[test]
    fn services_that_use_each_other_or_themselves_come_to_rest() {
        let edges = [edge("a", "b", 1), edge("b", "a", 2), edge("a", "a", 3)];
        let columns: BTreeSet<_> = columns_of(&edges).into_values().collect();
        assert_eq!(columns, BTreeSet::from([0, 1]));
        assert_eq!(map_picture(&edges).unreadable_text(), None);
        assert_eq!(map_picture(&[]).unreadable_text(), None);
    }

    #[test]
    fn line_that_loses_segments_has_another_colour() {
        let lossy = ServiceEdge {
            retrans_segs: 50,
            ..edge("a", "b", 1)
        };
        let scene = map_picture(&[lossy, edge("a", "c", 1)]);
        let paints: Vec<_> = scene
            .shapes
            .iter()
            .filter_map(|shape| match shape {
                Shape::Line { paint, .. } => Some(*paint),
                _ => None,
            })
            .collect();
        assert_eq!(paints, [Paint::Retransmitted, Paint::Data]);
    }
}
