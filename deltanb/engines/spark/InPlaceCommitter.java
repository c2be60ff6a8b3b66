package deltanb;

import java.io.IOException;

import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.JobContext;
import org.apache.hadoop.mapreduce.JobStatus;
import org.apache.hadoop.mapreduce.TaskAttemptContext;
import org.apache.hadoop.mapreduce.lib.output.FileOutputCommitter;

/**
 * Leaves the files of a task where it wrote them: in a bucket a rename is a copy, and files that no log names
 * are nobody's. Each attempt has a folder of its own. The one that Spark lets commit puts an empty object
 * beside it, so that whoever lists the files knows which of them count. An attempt that fails, or finds that
 * the write has ended, removes what it has written.
 */
public final class InPlaceCommitter extends FileOutputCommitter {
  private static final String DONE = "done-"; // known to folders.py

  private final Path output;
  private final Path work;

  public InPlaceCommitter(Path output, TaskAttemptContext context) throws IOException {
    super(output, context);
    this.output = output;
    this.work = new Path(output, name(context));
  }

  /** The number of a task among those of the job, and that of an attempt among those of the application. */
  private static String name(TaskAttemptContext context) {
    return context.getTaskAttemptID().getTaskID().getId() + "-" + context.getTaskAttemptID().getId();
  }

  public Path getWorkPath() {
    return work;
  }

  public void setupJob(JobContext context) {}

  public void commitJob(JobContext context) {}

  public void abortJob(JobContext context, JobStatus.State state) {}

  public void setupTask(TaskAttemptContext context) {}

  public boolean needsTaskCommit(TaskAttemptContext context) {
    return true;
  }

  public void commitTask(TaskAttemptContext context) throws IOException {
    FileSystem files = output.getFileSystem(context.getConfiguration());
    files.create(done(context), true).close();
    if (!files.exists(permit())) { // only now: what is whole before the permit goes is found by the driver
      throw new IOException("The write to " + output + " has ended: its driver has given it up, or VACUUM ran "
          + "with a retention shorter than the write"); // Spark aborts the task
    }
  }

  /** Known to permits.py, which says how it is used. */
  private Path permit() {
    return new Path(output.getParent(), "." + output.getName().replace('-', '.') + ".tmp");
  }

  private Path done(TaskAttemptContext context) {
    return new Path(output, DONE + name(context));
  }

  public void abortTask(TaskAttemptContext context) throws IOException {
    FileSystem files = output.getFileSystem(context.getConfiguration());
    files.delete(done(context), false);
    files.delete(work, true);
    try {
      files.delete(output, false); // for a folder that is empty some put an object in its place
    } catch (IOException error) {
      // Other attempts have files in it.
    }
  }
}
