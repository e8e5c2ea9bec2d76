what='makes a thumbnail, as file managers do'
calls=/usr/bin/gdk-pixbuf-thumbnailer

get() {
	packages gir1.2-gnomedesktop-3.0 python3-gi libgdk-pixbuf2.0-bin shared-mime-info dbus dconf-gsettings-backend
	version=$(version_of libgnome-desktop-3-20)
}

job() {
	dbus-run-session -- /usr/bin/python3 - <<-'END'
		import gi, os
		gi.require_version("GnomeDesktop", "3.0")
		gi.require_version("GdkPixbuf", "2.0")
		from gi.repository import GnomeDesktop, GdkPixbuf
		picture = GdkPixbuf.Pixbuf.new(GdkPixbuf.Colorspace.RGB, False, 8, 300, 200)
		picture.fill(0x204060ff)
		picture.savev("picture.png", "png", [], [])
		uri = "file://" + os.path.abspath("picture.png")
		factory = GnomeDesktop.DesktopThumbnailFactory.new(GnomeDesktop.DesktopThumbnailSize.NORMAL)
		thumbnail = factory.generate_thumbnail(uri, "image/png")
		assert thumbnail, "no thumbnail"
		assert (thumbnail.get_width(), thumbnail.get_height()) == (128, 85), (thumbnail.get_width(), thumbnail.get_height())
		assert thumbnail.get_pixels()[:3] == b"\x20\x40\x60", thumbnail.get_pixels()[:3]
	END
}
