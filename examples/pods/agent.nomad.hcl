# An agent in a task of Nomad that may make namespaces. Without security_opt commands run without.
job "agent" {
  type = "batch"

  group "agent" {
    task "agent" {
      driver = "docker"
      user   = "1000:1000"

      config {
        image        = "registry.example/agent:1"
        command      = "nsrun"
        args         = ["run", "--keep", "--", "make"]
        security_opt = ["seccomp=unconfined", "apparmor=unconfined", "systempaths=unconfined", "no-new-privileges"]
        cap_drop     = ["all"]
      }

      # Not in NOMAD_TASK_DIR: everybody can remove what is there, and nsrun keeps no sessions in such a directory.
      env {
        HOME = "/home/user"
      }

      resources {
        cpu    = 1000
        memory = 1024
      }
    }
  }
}
