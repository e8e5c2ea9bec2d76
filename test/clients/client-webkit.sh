what='renders a page in a sandboxed web process'
calls=--seccomp

get() {
	packages gir1.2-webkit2-4.1 python3-gi xvfb xauth dbus xdg-dbus-proxy
	version=$(version_of libwebkit2gtk-4.1-0)
}

job() {
	cat >page.py <<-'END'
		import gi, os, sys
		gi.require_version("Gtk", "3.0")
		gi.require_version("WebKit2", "4.1")
		from gi.repository import GLib, Gtk, WebKit2
		context = WebKit2.WebContext.new()
		context.set_sandbox_enabled(True)
		view = WebKit2.WebView.new_with_context(context)
		titles = []
		def title(view, _):
		    titles.append(view.get_title())
		    Gtk.main_quit()
		view.connect("notify::title", title)
		view.connect("web-process-terminated", lambda *a: sys.exit("the web process ended"))
		window = Gtk.Window()
		window.add(view)
		window.show_all()
		view.load_html("<title></title><script>document.title = 6 * 7</script>", None)
		GLib.timeout_add_seconds(60, Gtk.main_quit)
		Gtk.main()
		assert titles == ["42"], titles
	END
	LIBGL_ALWAYS_SOFTWARE=1 xvfb-run -a dbus-run-session -- /usr/bin/python3 page.py
}
