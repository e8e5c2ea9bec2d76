what='reads and removes the metadata of a picture'
calls=/usr/bin/exiftool

get() {
	packages mat2 python3-gi gir1.2-gdkpixbuf-2.0 libimage-exiftool-perl
	version=$(version_of mat2)
}

# As file managers use it: in the command of some versions --no-sandbox means the
# opposite.
job() {
	/usr/bin/python3 - <<-'END'
		import gi
		gi.require_version("GdkPixbuf", "2.0")
		from gi.repository import GdkPixbuf
		GdkPixbuf.Pixbuf.new(GdkPixbuf.Colorspace.RGB, False, 8, 16, 16).savev("picture.jpg", "jpeg", [], [])
	END
	exiftool -q -overwrite_original -Artist=Somebody picture.jpg
	/usr/bin/python3 - <<-'END'
		from libmat2 import parser_factory
		parser, _ = parser_factory.get_parser("picture.jpg")
		assert parser.get_meta()["Artist"] == "Somebody", parser.get_meta()
		parser.lightweight_cleaning = True
		assert parser.remove_all()
	END
	[ -s picture.cleaned.jpg ] || wrong "mat2 wrote nothing"
	[ -z "$(exiftool -Artist picture.cleaned.jpg)" ] || wrong "mat2 left the metadata"
}
