//! The files of the page, which are part of the program.

use crate::http::answer::TEXT;

/// A file of the page.
pub(crate) struct Asset {
    pub(crate) media_type: &'static str,
    pub(crate) bytes: &'static [u8],
}

/// The page itself, for browsers that are logged in.
pub(crate) const PAGE: &[u8] = include_bytes!("../page/index.html");
/// The form for the secret.
pub(crate) const LOGIN: &[u8] = include_bytes!("../page/login.html");

/// The licences of the files of others.
const LICENSES: &str = concat!(
    "uPlot 1.6.32\n\n",
    include_str!("../page/vendor/uPlot.LICENSE"),
    "\n\nd3-force 3.0.1, d3-dispatch 3.0.2, d3-quadtree 3.0.2, d3-timer 3.0.2\n\n",
    include_str!("../page/vendor/d3.LICENSE"),
);

static LICENSES_FILE: (&str, Asset) = (
    "/licenses.txt",
    Asset {
        media_type: TEXT,
        bytes: LICENSES.as_bytes(),
    },
);

/// Returns the file at a path that everyone may read.
pub(crate) fn find(path: &str) -> Option<&'static Asset> {
    let found = ASSETS
        .iter()
        .chain([&LICENSES_FILE])
        .find(|(known, _)| *known == path);
    found.map(|(_, asset)| asset)
}

macro_rules! assets {
    ($($name:literal $media_type:expr),* $(,)?) => {
        &[$((concat!("/", $name), Asset {
            media_type: $media_type,
            bytes: include_bytes!(concat!("../page/", $name)),
        })),*]
    };
}

const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

static ASSETS: &[(&str, Asset)] = assets! {
    "icon.svg" "image/svg+xml",
    "style.css" STYLE,
    "app.js" SCRIPT,
    "api.js" SCRIPT,
    "csv.js" SCRIPT,
    "details.js" SCRIPT,
    "findings.js" SCRIPT,
    "fleet.js" SCRIPT,
    "flows.js" SCRIPT,
    "format.js" SCRIPT,
    "graph.js" SCRIPT,
    "map.js" SCRIPT,
    "sockets.js" SCRIPT,
    "state.js" SCRIPT,
    "table.js" SCRIPT,
    "theme.js" SCRIPT,
    "timeline.js" SCRIPT,
    "window.js" SCRIPT,
    "vendor/d3-dispatch.js" SCRIPT,
    "vendor/d3-force.js" SCRIPT,
    "vendor/d3-quadtree.js" SCRIPT,
    "vendor/d3-timer.js" SCRIPT,
    "vendor/uPlot.css" STYLE,
    "vendor/uPlot.js" SCRIPT,
};
