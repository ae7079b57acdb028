//! Draws an SVG image as PNG, with the fonts of this machine. The only user of resvg.

use resvg::{
    tiny_skia::{Pixmap, Transform},
    usvg::{Options, Tree},
};

/// The longest side of an image, in pixels.
const LONGEST: f32 = 12_000.0;
/// The pixels of an image for each unit of a small picture.
const SHARP: f32 = 2.0;

/// The PNG image of an SVG image.
///
/// # Errors
/// The image is invalid; this machine has no fonts.
pub fn draw(svg: &str) -> Result<Vec<u8>, String> {
    let mut options = Options::default();
    options.fontdb_mut().load_system_fonts();
    if options.fontdb.is_empty() {
        return Err("this machine has no fonts; install one, or use `--format svg`".to_owned());
    }
    // Names such as `ui-sans-serif` mean nothing to resvg, which then takes this family.
    let families: Vec<String> = options
        .fontdb
        .faces()
        .flat_map(|face| face.families.iter().map(|it| it.0.clone()))
        .collect();
    let known = ["Helvetica", "Arial", "Liberation Sans", "DejaVu Sans", "Noto Sans"];
    let family = known.iter().find(|name| families.iter().any(|it| it == *name));
    if let Some(family) =
        family.map(|name| (*name).to_owned()).or_else(|| families.first().cloned())
    {
        options.fontdb_mut().set_sans_serif_family(family.clone());
        options.font_family = family;
    }
    let tree = Tree::from_str(svg, &options).map_err(|error| format!("draw the image: {error}"))?;
    let size = tree.size();
    let scale = (LONGEST / size.width().max(size.height())).min(SHARP);
    #[expect(clippy::cast_sign_loss, reason = "at least 1")]
    let pixels = |length: f32| (length * scale).ceil().clamp(1.0, LONGEST) as u32;
    let image = Pixmap::new(pixels(size.width()), pixels(size.height()));
    let mut image = image.ok_or("the image is too large")?;
    resvg::render(&tree, Transform::from_scale(scale, scale), &mut image.as_mut());
    image.encode_png().map_err(|error| format!("encode the image: {error}"))
}
